"""A-Greedy one profile tuple at a time, with loops, from figures 4.5 to 4.7 of the thesis; shares no code with it."""

from __future__ import annotations

from fractions import Fraction


class Reference:
    """Order, window of (bits, times) and matrix view as lists."""

    def __init__(self, order: list[int], window: int, alpha: Fraction) -> None:
        self.f = list(order)
        self.n = len(order)
        self.size, self.alpha = window, alpha
        self.window: list[tuple[list[int], list[int]]] = []
        self.v = [[0] * self.n for _ in range(self.n)]

    def times(self) -> list[Fraction]:
        return [Fraction(sum(t[i] for _, t in self.window), len(self.window)) for i in range(self.n)]

    def _count(self, bits: list[int], sign: int) -> None:
        dc = next(i for i in range(self.n) if bits[self.f[i]])
        for c in range(dc, self.n):
            if bits[self.f[c]]:
                for r in range(dc + 1):
                    self.v[r][c] += sign

    def scratch(self) -> list[list[int]]:
        """The matrix view from its definition."""
        v = [[0] * self.n for _ in range(self.n)]
        for bits, _ in self.window:
            for i in range(self.n):
                if any(bits[self.f[k]] for k in range(i)):
                    break
                for j in range(i, self.n):
                    v[i][j] += bits[self.f[j]]
        return v

    def violated(self) -> int | None:
        a = self.times()
        for i in range(self.n):
            own = self.v[i][i] / a[self.f[i]]
            if any(own < self.alpha * (self.v[i][j] / a[self.f[j]]) for j in range(i + 1, self.n)):
                return i
        return None

    def take(self, bits: list[int], times: list[int]) -> None:
        self.window.append((bits, times))
        self._count(bits, 1)
        if len(self.window) > self.size:
            self._count(self.window.pop(0)[0], -1)
        a = self.times()
        while (at := self.violated()) is not None:
            r = maxr = at
            while r <= maxr:
                for c in range(r, self.n):
                    self.v[r][c] = 0
                for seen, _ in self.window:
                    if not any(seen[self.f[k]] for k in range(r)):
                        for c in range(r, self.n):
                            self.v[r][c] += seen[self.f[c]]
                maxc = r
                for c in range(r + 1, self.n):
                    if self.v[r][c] / a[self.f[c]] > self.v[r][maxc] / a[self.f[maxc]]:
                        maxc = c
                maxr = max(maxr, maxc)
                if maxc != r:
                    self.f.insert(r, self.f.pop(maxc))
                    for k in range(r + 1):
                        self.v[k].insert(r, self.v[k].pop(maxc))
                r += 1

"""How many cases there were of each kind of window: different queries over one, each in a pond with its own stream.

`make test-deep` asks for ten thousand and more of each kind (`MILLPOND_CASES_OF_A_KIND`) and fails with fewer. A case
of a property test is a query in a pond with a random stream, cuts and restarts; so what is counted is what ran, not
what was planned. The same SELECT in the same pond, registered again or asked ad hoc, is the same case. Every process
of xdist counts for itself.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import millpond

#: What tells the kind of a window in brackets, in this order; the pattern is tried on its text in capitals.
KINDS = (
    ("registered", r"\[KIND\b"),
    ("sessions", r"\bSESSION\b"),
    ("now", r"\[NOW\]"),
    ("unbounded", r"\bUNBOUNDED\b"),
    ("landmark", r"\bRANGE ALL\b"),
    ("partitioned rows", r"(?s)\bPARTITION BY\b(?!.*\bRANGE\b).*\bSLIDE\b"),
    ("partitioned rows, relation", r"\bPARTITION BY\b(?!.*\bSLIDE\b)"),
    ("rows", r"\[ROWS\b.*\bSLIDE\b"),
    ("rows, relation", r"\[ROWS\b(?!.*\bSLIDE\b)"),
    ("by tuple", r"\bRANGE\b.*\bSLIDE\b[^,\]]*\b(ROWS?|RANK)\b"),
    ("by time", r"\b(SLIDE|TUMBLING)\b"),
    ("range, relation", r"\[RANGE\b"),
)
SEVERAL = "several in one SELECT"

#: Cases so far, by kind.
COUNTED: Counter[str] = Counter()

#: What ponds were asked for, by their folders; those of the last cases.
_seen: dict[str, set[tuple[str, str]]] = {}
_REMEMBERED = 1_000

_BRACKETS = re.compile(r"\[[^\[\]']*(?:'[^']*'[^\[\]']*)*\]")
_OPTIONS = re.compile(r"\s+WITH\s*\((?:[^()']|'[^']*')*\)\s*$", re.IGNORECASE)
_WINDOW = re.compile(r"\[\s*(RANGE|ROWS|NOW|PARTITION|KIND|SESSION|TUMBLING|SLIDE)\b", re.IGNORECASE)


def kinds_in(statement: str) -> set[str]:
    """The kinds of windows in a statement.

    >>> sorted(kinds_in("SELECT sum(a) [RANGE 1 m SLIDE 1 m], sum(a) [RANGE 2 m SLIDE 1 m], [1, 2] FROM s"))
    ['by time', 'several in one SELECT']
    """
    windows = [w.group(0).upper() for w in _BRACKETS.finditer(statement) if _WINDOW.match(w.group(0))]
    found = {name for w in windows if (name := next((n for n, pattern in KINDS if re.search(pattern, w)), None))}
    behind = re.findall(r"\)\s*\[\s*RANGE\b", statement.upper())
    return found | ({SEVERAL} if len(behind) > 1 and "FROM" in statement.upper() else set())


def cases_in(script: str) -> set[tuple[str, str]]:
    """The kinds of windows in a script, each with the SELECT that has it: without the query's name and options.

    >>> sorted(cases_in("SELECT a FROM s [NOW]; CREATE QUERY q AS SELECT a FROM s [NOW] WITH (since='start')"))
    [('now', 'SELECT a FROM s [NOW]')]
    """
    found = set()
    for statement in script.split(";"):
        if kinds := kinds_in(statement):
            select = _OPTIONS.sub("", statement[max(0, statement.upper().find("SELECT")) :]).strip()
            found |= {(kind, select) for kind in kinds}
    return found


def count_ponds() -> None:
    """From now on, count the queries of this process's ponds by their kinds of windows."""
    run, register = millpond.Pond.run, millpond.Pond.register

    def note(pond: Any, text: str) -> None:
        seen = _seen.setdefault(pond.path, set())  # a pond that is opened again is the same case
        new = cases_in(text) - seen
        seen |= new
        COUNTED.update(kind for kind, _ in new)
        if len(_seen) > _REMEMBERED:
            del _seen[next(iter(_seen))]

    def counted_run(pond: Any, script: str) -> Any:
        note(pond, script)
        return run(pond, script)

    def counted_register(pond: Any, text: str, *more: Any, **options: Any) -> Any:
        note(pond, text)
        return register(pond, text, *more, **options)

    # What a case runs is counted where all of them pass, and the product knows nothing of it.
    millpond.Pond.run, millpond.Pond.register = counted_run, counted_register  # type: ignore[method-assign]


class Cases:
    """The plugin of pytest: adds up what the processes have counted, shows it, and fails where it is too little."""

    def __init__(self, config: Any) -> None:
        self.config, self.wanted = config, int(os.environ.get("MILLPOND_CASES_OF_A_KIND", "0"))

    @property
    def short(self) -> list[str]:
        """The kinds of which there were too few cases."""
        kinds = [*(name for name, _ in KINDS), SEVERAL]
        return [k for k in kinds if COUNTED[k] < self.wanted]

    def pytest_testnodedown(self, node: Any) -> None:
        """A process of xdist is done."""
        COUNTED.update(getattr(node, "workeroutput", {}).get("cases_of_kinds", {}))

    def pytest_sessionfinish(self, session: Any) -> None:
        """Tell the process that started this one; the first one decides."""
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["cases_of_kinds"] = dict(COUNTED)
        elif self.wanted and self.short and session.exitstatus == 0:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """The table, where cases are asked for."""
        if not self.wanted:
            return
        terminalreporter.section("cases per kind of window")
        for kind in [*(name for name, _ in KINDS), SEVERAL]:
            few = f"  fewer than {self.wanted:,}" if kind in self.short else ""
            terminalreporter.line(f"{kind:30} {COUNTED[kind]:10,}{few}")


__all__ = ["COUNTED", "Cases", "cases_in", "count_ponds", "kinds_in"]

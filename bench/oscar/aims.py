"""What is wanted of archives, one line each: what was measured, and whether it is met."""

from __future__ import annotations

from typing import Any

from bench.common import emit
from bench.oscar.archives import HYBRID, REDUCTIONS

Lines = list[dict[str, Any]]


def aims(written: Lines, read: Lines, rated: Lines, together: Lines, lagged: Lines) -> list[tuple[str, Any, bool]]:
    """Each aim with what was measured, and whether it is met; aims whose case was left out are not there."""
    by = {(r["design"], r["reduction"], r["state"]): r for r in read}
    inserted = {line["design"]: line for line in written}
    far = max(abs(r["share"] / r["model"] - 1) for r in read if r["model"] > 0.02)
    rows = max(abs(r["rows_share"] / r["model"] - 1) for r in read if r["model"] > 0.02)
    ratio = by[HYBRID, 0.75, ""]["seconds"] / by[HYBRID, 0.0, ""]["seconds"]
    hybrid, eager = inserted[HYBRID]["seconds_share"], inserted["replicate"]
    step = by["replicate", 0.99, ""]["share"], by[HYBRID, 0.99, ""]["share"]
    lazy = by["modify", 0.75, "vacuumed"]["share"], by["modify", 0.75, "second"]["share"]
    flat = {by["plain", d, ""]["bytes"] for d in REDUCTIONS}
    found = [
        ("bytes read are within 5 % of the model", round(far, 4), far <= 0.05),
        ("tuples read are within 5 % of the model", round(rows, 4), rows <= 0.05),
        ("randomized insert takes at most 1.15 of plain", hybrid, hybrid <= 1.15),
        ("a scan at 75 % takes at most .35 of the full one, randomized", round(ratio, 3), ratio <= 0.35),
        ("eager insert is sub-linear in bytes written", [eager["seconds_share"], eager["bytes_share"]],
         eager["seconds_share"] < eager["bytes_share"]),
        ("eager copies of 20 to 80 % write three times the bytes", eager["bytes_share"],
         2.7 < eager["bytes_share"] < 3.3),
        ("plain reads the same at any reduction", len(flat), len(flat) == 1),
        ("eager stops gaining where randomized goes on", step, step[0] > 3 * step[1]),
        ("lazy reads less once it is vacuumed", lazy, lazy[0] < 0.6 * lazy[1]),
    ]  # fmt: skip
    rate = {(r["design"], r["reduction"]): r["scans_per_1000_s"] for r in rated}
    if rate:
        gain = [round(rate[d, 0.99] / rate[d, 0.75], 2) for d in ("replicate", HYBRID, "modify")]
        found.append(("from 75 to 99 % lazy and randomized scans gain more than eager ones", gain,
                      gain[0] < min(gain[1:])))  # fmt: skip
    found += _of_both(together)
    if lagged:
        without, loaded = (line["growth_s_per_s"] for line in lagged)
        longest = lagged[1]["longest_in_last_half_s"]
        found.append(("without REDUCE rows wait ever longer", without, without >= 0.1))
        found.append(("with REDUCE load() they wait for a bounded time", [loaded, longest],
                      loaded <= 0.1 and longest <= 4 * lagged[1]["target_s"]))  # fmt: skip
    return found


def _of_both(together: Lines) -> list[tuple[str, Any, bool]]:
    """Figures 13-16."""
    by = {(r["design"], r["reduction"], r["scanners"]): r for r in together}
    found: list[tuple[str, Any, bool]] = []
    most = max((n for _, _, n in by), default=0)
    if ("plain", 0.25, 3) in by and most > 3:
        slow = [by["plain", 0.25, n]["insert_seconds"] for n in (0, 3, most) if ("plain", 0.25, n) in by]
        if len(slow) == 3:
            none, three, all_of_them = slow
            level = three > none and (all_of_them - three) / (most - 3) < (three - none) / 3
            found.append(("inserts slow down up to three scans, and little after", slow, level))
    several = [
        n
        for d, r, n in by
        if d == "plain" and r == 0.75 and n and all((x, 0.75, n) in by for x in ("replicate", "modify"))
    ]
    if several:
        n = max(several)
        done = [by[d, 0.75, n]["scans_per_s"] for d in ("plain", "replicate", "modify")]
        found.append(("at 75 % eager and lazy complete more scans than plain beside inserts", done,
                      min(done[1:]) > done[0]))  # fmt: skip
    return found


def show(found: list[tuple[str, Any, bool]]) -> None:
    """A line for each."""
    for aim, measured, met in found:
        emit({"bench": "oscar", "case": "aim", "aim": aim, "measured": measured, "met": met})

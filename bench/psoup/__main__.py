"""`python -m bench.psoup rate|invoke|register|composite|all [options]`; exit status 1 when an answer was wrong."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from bench.common import Budget, Clock, emit, log, scratch
from bench.psoup import composite, invoke, rate, register
from bench.windows import _setting

#: In the order in which `all` runs them, with the share of the time at which each has to be over.
PARTS: dict[str, Any] = {"composite": composite, "rate": rate, "register": register, "invoke": invoke}
UNTIL = {"composite": 0.03, "rate": 0.64, "register": 0.82, "invoke": 1.0}
MINUTES = 25.0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; `parts` becomes a list, `settings` a dict for `millpond.open`."""
    parser = argparse.ArgumentParser(prog="python -m bench.psoup", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"], metavar="part", help=", ".join([*PARTS, "all"]))
    parser.add_argument("--cores", type=int, default=2, help="cores of every system")
    parser.add_argument("--executor", default="spark", help="Millpond's executor, where epochs are measured")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of millpond.open")
    parser.add_argument(
        "--minutes",
        type=float,
        help=f"time that everything may take; what does not fit is left out, and named ({MINUTES:g} for all)",
    )
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    for part in PARTS.values():
        part.arguments(parser)
    options = parser.parse_args(arguments)
    if "all" in options.parts:
        options.parts = list(PARTS)
        options.minutes = options.minutes or MINUTES
    options.settings = dict(_setting(text, parser) for text in options.set)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; the exit status."""
    options, clock, right = parse(arguments), Clock(), True
    budget = Budget(clock)
    with scratch() as home:
        for part in options.parts:
            log(f"{clock} part {part}")
            if options.minutes:
                budget.until = 60 * options.minutes * (UNTIL[part] if len(options.parts) == len(PARTS) else 1.0)
            right = PARTS[part].run(options, home / part, budget) and right
    if options.minutes:
        emit({
            "bench": "psoup",
            "case": "time",
            "correct": right,
            "minutes": options.minutes,
            "taken_minutes": round(clock.seconds / 60, 2),
            "left_out": budget.left_out,
        })  # fmt: skip
    log(f"{clock} done")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

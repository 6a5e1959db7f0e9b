"""`python -m bench.psoup rate|invoke|register|composite|all [options]`; exit status 1 when an answer was wrong."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from bench.common import Clock, log, scratch
from bench.psoup import composite, invoke, rate, register
from bench.windows import _setting

PARTS: dict[str, Any] = {"rate": rate, "invoke": invoke, "register": register, "composite": composite}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line; `parts` becomes a list, `settings` a dict for `millpond.open`."""
    parser = argparse.ArgumentParser(prog="python -m bench.psoup", description=__doc__)
    parser.add_argument("parts", nargs="+", choices=[*PARTS, "all"], metavar="part", help=", ".join([*PARTS, "all"]))
    parser.add_argument("--cores", type=int, default=2, help="cores of every system")
    parser.add_argument("--executor", default="spark", help="Millpond's executor, where epochs are measured")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="setting of millpond.open")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that it works")
    for part in PARTS.values():
        part.arguments(parser)
    options = parser.parse_args(arguments)
    options.parts = list(PARTS) if "all" in options.parts else options.parts
    options.settings = dict(_setting(text, parser) for text in options.set)
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the parts; the exit status."""
    options, clock, right = parse(arguments), Clock(), True
    with scratch() as home:
        for part in options.parts:
            log(f"{clock} part {part}")
            right = PARTS[part].run(options, home / part, clock) and right
    log(f"{clock} done")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())

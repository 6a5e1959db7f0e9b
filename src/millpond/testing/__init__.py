"""What users test their own streams with: the sqllogictest runner, a virtual clock, in-memory streams, golden files.

`case_records` reads `.slt` text, `ways` rewrites a case into one of the orders that must not change its answers,
`runner` runs it against a pond, `values` prints and compares answers, `disorder` makes streams that are out of order,
`merge_laws` tries aggregates of one's own. A new directive needs `case_records` and `runner` only, a new way `ways`
only; nothing outside this folder but the public pond is used, and how states are kept.

    >>> from millpond.testing import parse_case
    >>> [type(r).__name__ for r in parse_case("epoch\\n\\ndrain final\\n").records]
    ['Epoch', 'Drain']
"""

from millpond.testing.case_records import CaseSyntaxError, SltCase, parse_case
from millpond.testing.clock import VirtualClock, duration
from millpond.testing.disorder import band, block_sorted, lull, punctuations, skewed
from millpond.testing.golden import golden
from millpond.testing.merge_laws import merge_faults
from millpond.testing.runner import CaseFailure, NotApplicable, applicable_ways, run_case, run_file
from millpond.testing.streams import rows_table
from millpond.testing.ways import WAYS, plan

__all__ = [
    "WAYS",
    "CaseFailure",
    "CaseSyntaxError",
    "NotApplicable",
    "SltCase",
    "VirtualClock",
    "applicable_ways",
    "band",
    "block_sorted",
    "duration",
    "golden",
    "lull",
    "merge_faults",
    "parse_case",
    "plan",
    "punctuations",
    "rows_table",
    "run_case",
    "run_file",
    "skewed",
]

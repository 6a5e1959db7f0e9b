"""StreaMon: what measures plans while they run and changes them.

Everything here is a state machine: it takes what an epoch observed and says what the next one does; it reads no clock
and no file, so it is tested without an engine and replayed from a log. `interfaces` has the two halves that every
adaptive part has, a Profiler and a Re-optimiser, `observations` what passes between them, and `plan_log` what was
chosen when. For the order of filters these are in `filter_plans`: `profile` is what an epoch reports about a
conjunction of filters, `matrix_view` the counts that say whether an order is greedy, and each way of keeping an order
(`a_greedy`, `sweep`, `independent`, `local_swaps`) a file of its own with the interface of `orderer`. A new way is
added by a file beside them.
"""

from millpond.adapt.a_greedy import AGreedy
from millpond.adapt.filter_plans import FilterOptions, FilterPlan, FilterProfiler, FilterReoptimiser
from millpond.adapt.greedy import expected_cost, greedy_order
from millpond.adapt.independent import Independent
from millpond.adapt.interfaces import Profiler, Reoptimiser
from millpond.adapt.local_swaps import LocalSwaps
from millpond.adapt.matrix_view import MatrixView
from millpond.adapt.observations import Observation, OperatorStatistics
from millpond.adapt.orderer import Orderer, OrderSettings, Reorder
from millpond.adapt.plan_log import LogEntry, PlanLog
from millpond.adapt.profile import PASSES, UNKNOWN, Profile, ProfileWindow
from millpond.adapt.sweep import Sweep

__all__ = [
    "PASSES",
    "UNKNOWN",
    "AGreedy",
    "FilterOptions",
    "FilterPlan",
    "FilterProfiler",
    "FilterReoptimiser",
    "Independent",
    "LocalSwaps",
    "LogEntry",
    "MatrixView",
    "Observation",
    "OperatorStatistics",
    "OrderSettings",
    "Orderer",
    "PlanLog",
    "Profile",
    "ProfileWindow",
    "Profiler",
    "Reoptimiser",
    "Reorder",
    "Sweep",
    "expected_cost",
    "greedy_order",
]

"""Registered functions as the engine uses them: what queries call by name in WHERE and SELECT.

`known_functions` knows the functions of this process (workers read them from the pond's folder) and puts them into
DuckDB connections; `calling` makes of a Python function one over Arrow arrays, with NULLs, types and failures in order.
What a function is called with is the business of who evaluates: DuckDB, or `engine.screening` for a condition.
"""

from millpond.functions.calling import FAILED, UserFunctionError, miscounted, over_arrays
from millpond.functions.known_functions import (
    Function,
    display,
    function_of,
    install,
    merge_states,
    put,
    share,
    use,
    withdraw,
)

__all__ = [
    "FAILED",
    "Function",
    "UserFunctionError",
    "display",
    "function_of",
    "install",
    "merge_states",
    "miscounted",
    "over_arrays",
    "put",
    "share",
    "use",
    "withdraw",
]

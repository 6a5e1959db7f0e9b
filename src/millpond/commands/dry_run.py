"""Looking a script over before anything of it is executed: what is certainly wrong is said at once.

Statements are planned one after the other, each from the facts as they are when those before it have been executed.
What only the pond's data or its running can tell is left to the execution.
"""

from __future__ import annotations

from millpond import language as lang
from millpond.commands.families import plan
from millpond.commands.planned import Plan
from millpond.commands.pond_facts import Facts


def check_script(script: str, facts: Facts) -> Facts:
    """Find the first statement of a script that is certainly wrong; nothing is executed.

    Returns: the facts after it.

    Raises:
        StatementError: with the place in the script. QueryError: what a statement is about is not in that state.
    """
    for statement in lang.parse(script):
        planned = plan(facts, statement)
        if isinstance(planned, Plan):
            facts = planned.over(facts)
    return facts

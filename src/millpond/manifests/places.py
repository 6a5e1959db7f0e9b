"""Where state and answers of a pond lie, and what they are called."""

from __future__ import annotations

import os


def state_folder(pond: str) -> str:
    """The folder of the state table."""
    return os.path.join(pond, "state")


def results_folder(pond: str) -> str:
    """The folder of the results table."""
    return os.path.join(pond, "results")


def summaries_folder(pond: str) -> str:
    """The folder of the table of summaries' entries."""
    return os.path.join(pond, "summaries")


def query_owner(query: int) -> str:
    """The name that a query's answers are stored under.

    >>> query_owner(7)
    'q7'
    """
    return f"q{query}"


def derived_owner(stream: int) -> str:
    """What the operator of a derived stream is called.

    >>> derived_owner(7)
    's7'
    """
    return f"s{stream}"

"""Where the tables of a pond lie that belong to no single stream."""

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


__all__ = ["results_folder", "state_folder", "summaries_folder"]

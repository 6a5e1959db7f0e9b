"""Pure window mathematics: which windows a time belongs to, what a window covers, how windows are cut into panes.

Nothing here reads or writes; a new window kind is added by a new file beside `ids.py`. `candidates.py` works on sorted
arrays of (group, pane) and may be tuned without looking elsewhere as long as its tests against `ids.py` hold.
"""

from millpond.windows.candidates import Rows, late_pairs
from millpond.windows.covers import Cover
from millpond.windows.ids import end_of, extent, first_end_after, id_of_end, last_end_until, wids, windows
from millpond.windows.pane_layout import KindPanes, PaneCut, Panes, panes_of

__all__ = [
    "Cover",
    "KindPanes",
    "PaneCut",
    "Panes",
    "Rows",
    "end_of",
    "extent",
    "first_end_after",
    "id_of_end",
    "last_end_until",
    "late_pairs",
    "panes_of",
    "wids",
    "windows",
]

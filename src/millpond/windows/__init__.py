"""Pure window mathematics: which windows a time belongs to, what a window covers, how windows are cut into panes.

Nothing here reads or writes; a new window kind is added by a new file beside `ids.py`. `candidates.py` works on sorted
arrays of (group, pane) and may be tuned without looking elsewhere as long as its tests against `ids.py` hold.
"""

from millpond.windows.candidates import Rows, late_pairs
from millpond.windows.covers import Cover, begin_of, cover_of
from millpond.windows.ids import end_of, extent, first_end_after, have_ended, id_of_end, last_end_until, wids, windows
from millpond.windows.pane_layout import CalendarPanes, KindPanes, PaneCut, Panes, panes_of

__all__ = [
    "CalendarPanes",
    "Cover",
    "KindPanes",
    "PaneCut",
    "Panes",
    "Rows",
    "begin_of",
    "cover_of",
    "end_of",
    "extent",
    "first_end_after",
    "have_ended",
    "id_of_end",
    "last_end_until",
    "late_pairs",
    "panes_of",
    "wids",
    "windows",
]

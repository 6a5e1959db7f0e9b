"""The settings of a pond: what each is, how it is read, and which may change while the pond runs.

A setting is given when the pond is opened (`millpond.open(path, target=1.0)`, `--set target=1`), or by
`ALTER SYSTEM SET target = 1`, which the catalog remembers; what is given at an opening goes first. The next epoch goes
by what holds when its manifest is written: whatever of it an epoch depends on stands in there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from millpond.adapt.matching_pace import share_of
from millpond.adapt.scheduling import POLICIES, Policy
from millpond.support.errors import PondError


@dataclass
class Settings:
    """What can be set when a pond is opened, and most of it while it runs.

    shards: state shards, fixed when the pond is made. target: seconds that an epoch should last at most under load, or
        up to five times as many while far more waits than it can take.
    share: whether queries share synopses. settle: microseconds for which a file must be unchanged before it is taken.
    hot_bytes: memory for hot rows and what is kept ready of row queries. eager_rows: rows from which on a map task
    matches them with all row queries. explicit_matches: matches per row that are then written out one by one, as far as
    finding them makes epochs longer by no more than `matching_share` of what they take otherwise.
    statistics: whether epochs report into the stream `sysstream`. scheduling: in which order an epoch takes what waits
    at stages, when that is more than it can take (`millpond.adapt.scheduling`).
    table_timeout: seconds that the database of a table may take to answer.
    drivers: Python modules that tables in databases may be read through, separated by commas. Only an opening says
    them, since a module that is imported runs.
    """

    shards: int = 2
    target: float = 2.0
    share: bool = True
    settle: int = 1_000_000
    rows_per_epoch: int = 8_000_000
    compact_files: int = 8
    hot_bytes: int = 1 << 29
    eager_rows: int = 16_384
    explicit_matches: float = 24.0
    matching_share: float = 0.1
    statistics: bool = False
    scheduling: Policy = "fifo"
    table_timeout: float = 30.0
    drivers: str = "adbc_driver_postgresql.dbapi"


@dataclass(frozen=True)
class Setting:
    """One setting: how a value is read (ValueError says what would do), what it is for, whether it may change."""

    read: Callable[[Any], Any]
    expected: str
    about: str
    live: bool = True


def _whole(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        text = str(value).strip().replace("_", "").replace(",", "")
        if not re.fullmatch(r"\d{1,15}", text) or int(text) < least:
            raise ValueError(f"'{value}' is not a whole number from {least:,} on")
        return int(text)

    return read


def _seconds(value: Any) -> float:
    number = _number(value)
    if not number:
        raise ValueError(f"'{value}' is not longer than nothing")
    return number


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < 1e9:
        raise ValueError(f"'{value}' is not a number from 0 on")
    return number


def _boolean(value: Any) -> bool:
    text = str(value).strip().lower()
    if text not in ("true", "false", "on", "off", "1", "0"):
        raise ValueError(f"'{value}' is neither true nor false")
    return text in ("true", "on", "1")


def _share(value: Any) -> float:
    try:
        return share_of(value)
    except PondError:
        raise ValueError(f"'{value}' is not a number from 0 on, or inf") from None


def _policy(value: Any) -> Policy:
    text = str(value).strip().lower().replace("_", " ")
    if text not in POLICIES:
        raise ValueError(f"'{value}' is none of {', '.join(POLICIES)}")
    return text


def _drivers(value: Any) -> str:
    names = [n.strip() for n in (value.split(",") if isinstance(value, str) else list(value)) if n.strip()]
    for name in names:
        if not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", name):
            raise ValueError(f"'{name}' is no name of a module")
    return ", ".join(names)


def drivers_of(setting: str) -> tuple[str, ...]:
    """The modules that the setting `drivers` names.

    >>> drivers_of("sqlite3, psycopg")
    ('sqlite3', 'psycopg')
    """
    return tuple(n.strip() for n in setting.split(",") if n.strip())


SETTINGS: Final[Mapping[str, Setting]] = {
    "shards": Setting(_whole(1), "a number such as 2", "state shards; fixed when the pond is made", live=False),
    "target": Setting(_seconds, "seconds such as 2.0", "seconds that an epoch should last at most under load"),
    "share": Setting(_boolean, "true or false", "whether queries share synopses"),
    "settle": Setting(_whole(0), "microseconds", "for how long a file must be unchanged, microseconds", live=False),
    "rows_per_epoch": Setting(_whole(1), "a number such as 8000000", "rows that an epoch takes at most"),
    "compact_files": Setting(_whole(2), "a number such as 8", "small files that are merged into one"),
    "hot_bytes": Setting(_whole(0), "bytes such as 536870912", "memory for hot rows and what is kept ready"),
    "eager_rows": Setting(_whole(0), "a number such as 16384", "rows of a task from which on they are matched ahead"),
    "explicit_matches": Setting(_number, "a number such as 24", "matches per row that are written out"),
    "matching_share": Setting(_share, "a number such as 0.1, or inf", "how much longer matching may make epochs"),
    "statistics": Setting(_boolean, "true or false", "whether epochs report into the stream sysstream"),
    "scheduling": Setting(
        _policy,
        " or ".join(f"'{p}'" for p in POLICIES),
        "which stage's rows an epoch takes first when it cannot take all",
    ),
    "table_timeout": Setting(_seconds, "seconds such as 30", "how long the database of a table may take to answer"),
    "drivers": Setting(
        _drivers, "names of modules such as 'sqlite3, psycopg'", "modules that reach databases with tables", live=False
    ),
}


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are given at an opening.

    Raises: PondError for a name that there is not, or a value that cannot be.
    """
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name not in SETTINGS:
            raise PondError(f"there is no setting '{name}'; there are {', '.join(SETTINGS)}")
        try:
            found[name] = SETTINGS[name].read(value)
        except ValueError as fault:
            raise PondError(f"{name} = {value!r}: {fault}; pass {SETTINGS[name].expected}") from None
    return found


assert list(SETTINGS) == [f.name for f in fields(Settings)]

__all__ = ["SETTINGS", "Setting", "Settings", "drivers_of", "read_settings"]

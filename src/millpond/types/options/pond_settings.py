"""The settings of a pond: what each is, how it is read, and which may change while the pond runs.

A setting is given when the pond is opened (`millpond.open(path, target=1.0)`, `--set target=1`), or by
`ALTER SYSTEM SET target = 1`, which the catalog remembers; what is given at an opening goes first. The next epoch goes
by what holds when its manifest is written: whatever of it an epoch depends on stands in there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from millpond.support.errors import PondError
from millpond.types.options.declared import option, options_of, read
from millpond.types.options.value_kinds import Boolean, Choice, Kind, Modules, Number, OptionFault, Whole

T = TypeVar("T")

#: In which order an epoch takes what waits at stages.
Policy = Literal["fifo", "greedy", "chain", "round robin"]
POLICIES: tuple[Policy, ...] = ("fifo", "greedy", "chain", "round robin")


def _setting(default: T, kind: Kind[Any], about: str, live: bool = True) -> T:
    return option(default, kind, about, live=live, word="setting")


@dataclass
class Settings:
    """What can be set when a pond is opened, and most of it while it runs.

    drivers: only an opening says them, since a module that is imported runs.
    """

    shards: int = _setting(2, Whole("a number such as 2"), "state shards; fixed when the pond is made", live=False)
    target: float = _setting(
        2.0, Number("seconds such as 2.0", above=True), "seconds that an epoch should last at most under load"
    )
    share: bool = _setting(True, Boolean(), "whether queries share synopses")
    settle: int = _setting(
        1_000_000, Whole("microseconds", least=0), "for how long a file must be unchanged, microseconds", live=False
    )
    rows_per_epoch: int = _setting(8_000_000, Whole("a number such as 8000000"), "rows that an epoch takes at most")
    compact_files: int = _setting(8, Whole("a number such as 8", least=2), "small files that are merged into one")
    hot_bytes: int = _setting(
        1 << 29, Whole("bytes such as 536870912", least=0), "memory for hot rows and what is kept ready"
    )
    eager_rows: int = _setting(
        16_384, Whole("a number such as 16384", least=0), "rows of a task from which on they are matched ahead"
    )
    explicit_matches: float = _setting(24.0, Number("a number such as 24"), "matches per row that are written out")
    matching_share: float = _setting(
        0.1, Number("a number such as 0.1, or inf", unbounded=True), "how much longer matching may make epochs"
    )
    statistics: bool = _setting(False, Boolean(), "whether epochs report into the stream sysstream")
    scheduling: Policy = _setting(
        "fifo", Choice(POLICIES), "which stage's rows an epoch takes first when it cannot take all"
    )
    table_timeout: float = _setting(
        30.0, Number("seconds such as 30", above=True), "how long the database of a table may take to answer"
    )
    select_timeout: float = _setting(
        300.0, Number("seconds such as 300", above=True), "how long the SQL of an ad hoc SELECT may run"
    )
    remote_files: bool = _setting(False, Boolean(), "whether statements over HTTP may read and write files", live=False)
    drivers: str = _setting(
        "adbc_driver_postgresql.dbapi", Modules(), "modules that reach databases with tables", live=False
    )

    @property
    def driver_modules(self) -> tuple[str, ...]:
        """The modules that `drivers` names.

        >>> Settings(drivers="sqlite3, psycopg").driver_modules
        ('sqlite3', 'psycopg')
        """
        return tuple(name.strip() for name in self.drivers.split(",") if name.strip())


def read_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as they are given at an opening.

    Raises: PondError for a name that there is not, or a value that cannot be.
    """
    try:
        return read(options_of(Settings), given)
    except OptionFault as fault:
        raise PondError(str(fault)) from None

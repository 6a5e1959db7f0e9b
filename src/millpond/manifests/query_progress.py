"""How far a query has answered: what every kind of operator knows of its queries, and a part that its kind owns.

The own part is a frozen dataclass in the package of the kind. Records carry it with the kind's word; whoever is not of
the kind sees it unread, and passes it on as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, cast

from millpond.manifests.owed import Owed, all_owed
from millpond.progress import NEVER
from millpond.types import TableStretch, from_json, to_json
from millpond.types.json_records import TAG, Upgraded, Written

# -- how the progress of shards combines -------------------------------------------------------------------------------

#: How a field of a record goes on: what it was before, and what each shard says that it is now.
Rule = Callable[[Any, Sequence[Any]], Any]


def largest(_before: Any, after: Sequence[Any]) -> Any:
    """What the furthest shard says; of flags, whether any shard sets it."""
    return max(after)


def smallest(_before: Any, after: Sequence[Any]) -> Any:
    """The least that a shard knows of; None when none does."""
    return min((a for a in after if a is not None), default=None)


def added_up(before: Any, after: Sequence[Any]) -> Any:
    """A count: each shard says how many there were before and in its own part."""
    return before + sum(a - before for a in after)


def all_told(_before: Any, after: Sequence[Any]) -> Any:
    """Everything that some shard names, each once."""
    return tuple(dict.fromkeys(each for a in after for each in a))


def news(before: Any, after: Sequence[Any]) -> Any:
    """What shards have changed, all alike; those for which there was nothing to do have left it as it was."""
    return next((a for a in after if a != before), before)


def as_before(before: Any, _after: Sequence[Any]) -> Any:
    """What is settled when a query is registered, and no shard changes."""
    return before


def alike(_before: Any, after: Sequence[Any]) -> Any:
    """What every shard that has something to say knows alike: a query that answers is not paused."""
    return after[0]


def of_its_own(before: OwnProgress, after: Sequence[OwnProgress]) -> OwnProgress:
    """The part that a kind owns combines by its own rules."""
    return before.after(after)


def by_shard(rule: Rule, default: Any) -> Any:
    """A field of a record that every shard makes its own of."""
    return field(default=default, metadata={"rule": rule})


@cache
def combining(kind: Any) -> dict[str, Rule]:
    """The rule of every field of a record. Raises: KeyError for one that has none."""
    return {f.name: f.metadata["rule"] for f in fields(kind)}


def _combined(before: Any, shards: Sequence[Any]) -> dict[str, Any]:
    """The fields of a record after an epoch, each by its own rule."""
    return {name: rule(getattr(before, name), [getattr(s, name) for s in shards])
            for name, rule in combining(before.__class__).items()}  # fmt: skip


# -- the part that a kind owns -----------------------------------------------------------------------------------------

Own = TypeVar("Own", bound="OwnProgress")


@dataclass(frozen=True)
class OwnProgress(Written):
    """What a kind of operators knows of the progress of its queries, beside what all kinds do.

    A kind's class is a frozen dataclass whose fields are made by `by_shard`, and all have a default.

    word: by which records name the class; it must not change.
    """

    word: ClassVar[str] = ""

    def written(self) -> Any:
        """See `Written`."""
        return {TAG: self.word, **{f.name: to_json(getattr(self, f.name)) for f in fields(self)}}

    @classmethod
    def read(cls, value: Any) -> Any:
        """See `Written`: what it says is read when its kind is known (`QueryProgress.read`)."""
        return Unread(value.get(TAG, ""), {k: v for k, v in value.items() if k != TAG})

    def after(self, shards: Sequence[Self]) -> Self:
        """As of `QueryProgress.after`."""
        return replace(self, **_combined(self, shards))

    def of_kind(self, kind: type[Own]) -> Own:
        """Itself, as of one of its classes. Raises: TypeError when it is of another kind."""
        if not isinstance(self, kind):
            raise TypeError(f"the progress of '{self.word}' is not of '{kind.word}'")
        return self


@dataclass(frozen=True)
class NothingOwn(OwnProgress):
    """Of kinds that know nothing beside."""

    word: ClassVar[str] = "nothing"


@dataclass(frozen=True)
class Unread(OwnProgress):
    """The own part as it stands in a record.

    kind: the word of its class; '': nobody has said yet, or the record is of before there were kinds.
    value: its fields as JSON; among them may be fields of other kinds where `kind` is ''.
    """

    kind: str = by_shard(as_before, "")
    value: Mapping[str, Any] = field(default_factory=dict, metadata={"rule": as_before})

    def written(self) -> Any:
        """See `Written`."""
        return {TAG: self.kind, **self.value} if self.kind else dict(self.value)

    def of_kind(self, kind: type[Own]) -> Own:
        """See `OwnProgress`: read as it is written."""
        if not kind.word or self.kind not in ("", kind.word):
            raise TypeError(f"the progress of '{self.kind}' is not of '{kind.word}'")
        return from_json(kind, self.value)


# -- the whole ---------------------------------------------------------------------------------------------------------

if TYPE_CHECKING:  # to be had without its parameter where nothing is said of the own part
    from typing_extensions import TypeVar as DefaultTypeVar

    P = DefaultTypeVar("P", bound=OwnProgress, covariant=True, default=OwnProgress)
else:
    P = TypeVar("P", bound=OwnProgress, covariant=True)


_NOTHING_READ: Any = Unread()


@dataclass(frozen=True)
class QueryProgress(Generic[P], Upgraded):
    """How far a query has answered.

    closed: windows that end at or before it, or instants before it, have been answered (microseconds).
    start: windows that end at or before it are not the query's business: they were closed when it was registered.
    windows, revisions, too_late: first answers and revisions that it has given, and rows that came too late for it.
    paused: the first epoch in which the query was paused; None while it runs.
    tables: of a query that reads tables, from which instants on it has seen which versions of them, as far back as
        instants can still be revised: these versions are kept.
    floor: before it state is not complete, though `revise_for` reaches further: it was raised (microseconds).
    owed: what rows have come for that state no longer covers, until it is recomputed from the archive.
    missed: (low, high): windows that end, or instants that lie, in such stretches lack rows that came when retention
        had removed what they were made of.
    own: what the kind of its operator knows beside.
    """

    closed: int = by_shard(largest, NEVER)
    start: int = by_shard(as_before, NEVER)
    windows: int = by_shard(added_up, 0)
    revisions: int = by_shard(added_up, 0)
    too_late: int = by_shard(added_up, 0)
    paused: int | None = by_shard(alike, None)
    tables: tuple[TableStretch, ...] = by_shard(news, ())
    floor: int = by_shard(largest, NEVER)
    owed: tuple[Owed, ...] = by_shard(all_owed, ())
    missed: tuple[tuple[int, int], ...] = by_shard(news, ())
    own: P = field(default=_NOTHING_READ, metadata={"rule": of_its_own})

    @classmethod
    def upgraded(cls, value: dict[str, Any]) -> dict[str, Any]:
        """See `Upgraded`: once there was one record for all kinds, with the fields of each beside the common ones."""
        if "own" in value:
            return value
        common = {f.name for f in fields(cls)}
        return {
            **{name: v for name, v in value.items() if name in common},
            "own": {name: v for name, v in value.items() if name not in common},
        }

    def read(self, kind: type[Own]) -> QueryProgress[Own]:
        """It with its own part as of a kind. Raises: TypeError when it is of another one."""
        own: Any = self.own.of_kind(kind)
        return cast("QueryProgress[Own]", self if own is self.own else replace(self, own=own))

    def after(self, shards: Sequence[QueryProgress[P]]) -> Self:
        """The progress after an epoch or a back-fill, of what each shard made of it: every field by its own rule."""
        return replace(self, **_combined(self, shards)) if shards else self


__all__ = [
    "NothingOwn",
    "OwnProgress",
    "P",
    "QueryProgress",
    "Rule",
    "Unread",
    "added_up",
    "alike",
    "all_told",
    "as_before",
    "by_shard",
    "combining",
    "largest",
    "news",
    "smallest",
]

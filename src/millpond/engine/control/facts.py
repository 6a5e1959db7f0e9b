"""What is so when an epoch is proposed: everything that the decision looks at, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millpond.adapt.matching_pace import UNLIMITED
from millpond.adapt.scheduling import StageProfile
from millpond.catalog import Catalog
from millpond.engine.intake.admission import Pace
from millpond.manifests.adoptions import Adoption
from millpond.manifests.records import Published
from millpond.operators.relational.skew import Skew
from millpond.sources.intake_log import Item
from millpond.tables import Segment
from millpond.types.options import Settings


@dataclass(frozen=True)
class StreamFacts:
    """What a stream has.

    items: that no epoch has taken, in order.
    ended_at: how many items there were when its end was recorded; None: it has not ended.
    arriving: clock readings of batches that are being written and are no items yet (microseconds).
    copies: the reduced copies that new rows enter, with the fraction that each keeps.
    archive: the files of its archive.
    """

    items: Sequence[Item] = ()
    ended_at: int | None = None
    arriving: tuple[int, ...] = ()
    copies: Mapping[str, float] = field(default_factory=dict)
    archive: tuple[Segment, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What is so.

    clock: a reading (microseconds). catalog: before back-fills are adopted. published: the last publish record.
    streams: by id. adoptions: back-fills that the epoch can adopt. mended: answers that were recomputed.
    state: the committed state files.
    tables: versions of the tables that standing queries read, by id; unread: of those that never could be read, why.
    cores: tasks that run at once. pace, stages, skew, matching_work: what was learnt of the epochs before; see
    `Controllers` and `Manifest`.
    force: an epoch is wanted even if there is nothing to do.
    """

    clock: int
    catalog: Catalog
    published: Published
    settings: Settings
    streams: Mapping[int, StreamFacts] = field(default_factory=dict)
    adoptions: tuple[Adoption, ...] = ()
    state: tuple[Segment, ...] = ()
    tables: Mapping[str, int] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    cores: int = 1
    pace: Pace = field(default_factory=Pace)
    stages: StageProfile = field(default_factory=StageProfile)
    skew: Skew = field(default_factory=Skew)
    matching_work: float = UNLIMITED
    force: bool = False
    mended: tuple[Adoption, ...] = ()

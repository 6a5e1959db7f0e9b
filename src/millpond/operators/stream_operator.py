"""Operators over the rows of one stream, which asks for them by its option `operators`: no query is needed."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Self

import pyarrow as pa

from millpond.catalog import Catalog, Standing
from millpond.operators.contract import Operator
from millpond.operators.plan_facts import PlanFacts, work_facts
from millpond.progress import StreamProgress
from millpond.support.errors import Refusal
from millpond.support.spelling import nearest
from millpond.support.sql import quote
from millpond.synopses import connection, query_table
from millpond.tables import Chunk
from millpond.types import Column, StreamDefinition
from millpond.types.plan_nodes import PlanNode


class StreamOperator(Operator):
    """What is computed of one stream's rows, and answered to whoever asks.

    One that fails is stopped: it cannot tell any more what it has missed.

    Args:
        stream: which has asked for it.
        arguments: as they are written behind its word. Raise `Refusal` where they cannot be so.
        owner: see `Operator`.

    Attributes:
        word: what the option `operators` calls its kind.
    """

    word: ClassVar[str]

    def __init__(self, stream: StreamDefinition, arguments: tuple[str, ...], owner: str) -> None:
        self.stream, self.arguments, self.owner = stream, arguments, owner

    @classmethod
    def of(cls, catalog: Catalog) -> Iterable[Self]:
        """See `Operator`."""
        asked = [(owner, *each) for owner, each in catalog.asked.items() if owner not in catalog.stopped]
        return [cls(stream, each.arguments, owner) for owner, stream, each in asked if each.word == cls.word]

    def explain(self, facts: PlanFacts, asker: Standing | None = None) -> PlanNode:
        """See `Operator`: how it was asked for. A kind adds what it has to say of itself."""
        title = f"operator {self.word}({', '.join(self.arguments)})"
        return PlanNode(self.word, title, tuple(work_facts(facts, self.owner)))

    def explain_stream(self, facts: PlanFacts, stream: StreamDefinition) -> PlanNode | None:
        """See `Operator`."""
        return self.explain(facts) if stream.id == self.stream.id else None

    def in_shard(self, shard: int, shards: int) -> bool:
        """See `Operator`: its rows may be in all shards."""
        return True

    @abstractmethod
    def answer(self, chunks: Iterable[Chunk], progress: StreamProgress) -> pa.Table:
        """What it answers who asks now.

        Args:
            chunks: its state, of all shards. progress: of the stream.
        """

    def chunks(self, kind: str, epoch: int, rows: pa.Table) -> list[Chunk]:
        """Rows of the stream as a chunk of state; none where there are no rows."""
        if not rows.num_rows:
            return []
        time = quote(self.stream.options.time)
        sql = f"SELECT epoch_us(min({time})) AS low, epoch_us(max({time})) AS high FROM rows"
        [times] = query_table(connection(), sql, rows=rows).to_pylist()
        return [Chunk(self.owner, kind, epoch, times["low"], times["high"], rows)]

    def column(self, name: str) -> Column:
        """A column of the stream. Raises: Refusal when there is none of that name."""
        found = self.stream.column(name)
        if found is None:
            names = [c.name for c in self.stream.all_columns]
            raise Refusal(
                f"there is no column '{name}' for {self.word}", "operators", (), "a column of the stream",
                nearest(name, names),
            )  # fmt: skip
        return found

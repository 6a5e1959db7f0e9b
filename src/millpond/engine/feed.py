"""The feed: a Spark data source whose offsets are epochs with a manifest. It hands out no rows."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

from millpond.engine.records import last_record, manifest_path

#: Seconds that a question for the latest offset waits for a manifest before it answers "nothing new".
PATIENCE = 0.5


class FeedReader(DataSourceStreamReader):
    """Offsets `{"epoch": n}`: all epochs up to n have been handed to Spark."""

    def __init__(self, pond: str) -> None:
        self.pond = pond

    def initialOffset(self) -> dict[str, int]:
        """The last published epoch."""
        return {"epoch": last_record(self.pond, "published")}

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        """One epoch further if its manifest is written."""
        epoch = int(start["epoch"]) if start else last_record(self.pond, "published")
        path = manifest_path(self.pond, epoch + 1)
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(path):
            if time.monotonic() > deadline:
                return {"epoch": epoch}
            time.sleep(0.003)
        return {"epoch": epoch + 1}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One partition, which nobody reads: splits are read from the manifest."""
        return [InputPartition(end["epoch"])]

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:
        """The epoch's number."""
        yield (int(partition.value),)

    def commit(self, end: dict[str, int]) -> None:
        """Publish records tell what is done."""


class Feed(DataSource):
    """Format `millpond`, option `pond`: the pond's folder."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "millpond"

    def schema(self) -> str:
        """One column."""
        return "epoch long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        """The reader."""
        return FeedReader(self.options["pond"])

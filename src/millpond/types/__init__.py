"""The words that every room uses: columns, streams, windows, bound queries.

Everything here is an immutable value that can be written as JSON and read back (`to_json`, `from_json`), because
manifests and the catalog carry these values between processes and across restarts.

    >>> Column("mph", "DOUBLE")
    Column(name='mph', type='DOUBLE')
    >>> from_json(StreamDefinition, to_json(StreamDefinition("s", (Column("ts", "TIMESTAMP"),)))).columns[0].name
    'ts'
"""

from __future__ import annotations

from millpond.types.columns import (
    ARRIVAL,
    COVERED,
    DAY,
    EXACT,
    HOLDS,
    HOUR,
    MICROSECOND,
    MINUTE,
    NUMBER,
    SECOND,
    STATUS,
    WEIGHT,
    Column,
)
from millpond.types.functions import FunctionDefinition
from millpond.types.instants import EPOCH, micros_of, moment_of
from millpond.types.landmarks import Landmark
from millpond.types.options.query_options import QueryOptions
from millpond.types.outputs import PLACE, Aggregate, Feed, Key, OrderTerm, Output
from millpond.types.queries import BoundQuery, InnerStream, QueryDefinition, StagedQuery
from millpond.types.records import from_json, to_json
from millpond.types.relations import (
    ConstantInput,
    GroupArgument,
    Grouping,
    JoinCondition,
    JoinEquality,
    JoinPlan,
    Lookup,
    Probe,
    Relational,
    RelationInput,
    RelationWindow,
    TableRef,
    TableStretch,
)
from millpond.types.selections import Edge, Interval, JoinFactor, Selection, Side, Span
from millpond.types.streams import Derivation, StreamDefinition, StreamOptions, TableDefinition, leads_away
from millpond.types.windows import KindDefinition, Reduction, RowWindow, Window

__all__ = [
    "ARRIVAL",
    "COVERED",
    "DAY",
    "EPOCH",
    "EXACT",
    "HOLDS",
    "HOUR",
    "MICROSECOND",
    "MINUTE",
    "NUMBER",
    "PLACE",
    "SECOND",
    "STATUS",
    "WEIGHT",
    "Aggregate",
    "BoundQuery",
    "Column",
    "ConstantInput",
    "Derivation",
    "Edge",
    "Feed",
    "FunctionDefinition",
    "GroupArgument",
    "Grouping",
    "InnerStream",
    "Interval",
    "JoinCondition",
    "JoinEquality",
    "JoinFactor",
    "JoinPlan",
    "Key",
    "KindDefinition",
    "Landmark",
    "Lookup",
    "OrderTerm",
    "Output",
    "Probe",
    "QueryDefinition",
    "QueryOptions",
    "Reduction",
    "RelationInput",
    "RelationWindow",
    "Relational",
    "RowWindow",
    "Selection",
    "Side",
    "Span",
    "StagedQuery",
    "StreamDefinition",
    "StreamOptions",
    "TableDefinition",
    "TableRef",
    "TableStretch",
    "Window",
    "from_json",
    "leads_away",
    "micros_of",
    "moment_of",
    "to_json",
]

"""Queries, each as what it is: over windows, over relations, of pairs, over single rows.

A `Query` is a SELECT after names and types have been resolved: what the engine plans from. Whoever must choose among
kinds of queries asks them, or matches them all (`typing.assert_never`). What queries of one kind have in common can be
changed without looking at the others.
"""

from millpond.types.queries.relational_queries import PairsQuery, RelationQuery
from millpond.types.queries.single_row_queries import RowQuery
from millpond.types.queries.stream_queries import GroupScan, RowScan, RowWindowQuery, SessionQuery, WindowQuery

#: An ad hoc SELECT over a stream without a window.
ScanQuery = GroupScan | RowScan

#: A query over windows that have ends.
WindowedQuery = WindowQuery | RowWindowQuery | SessionQuery

#: A query of CQL.
RelationalQuery = RelationQuery | PairsQuery

#: What stands with an operator of its own; row queries stand in the register.
StandingQuery = WindowQuery | RowWindowQuery | SessionQuery | RelationQuery | PairsQuery

#: Every query that may stand.
Query = StandingQuery | RowQuery

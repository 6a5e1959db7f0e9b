# ruff: noqa: E501  # circles have long names
"""What breaks a law of `test_architecture` still. These lists only shrink."""

BACKWARD: set[str] = set()

CIRCLES: set[str] = {
    "answers.describe.describe answers.describe.explain_row_queries",
    "answers.relational answers.relations",
    "engine.jobs.backfill engine.jobs.relation_backfill engine.jobs.tables",
    "language.aggregate_calls language.column_types language.dialect language.enums language.expressions language.from_items language.functions language.reduce_clause language.statistics_calls language.user_functions language.window_clause language.zoned",
    "relations.contents relations.runs relations.stores",
}

CLIENT_IMPORTS: set[str] = set()

LARGE_FOLDERS: set[str] = {
    "language",
    "synopses",
}

LONG_FUNCTIONS: set[str] = {
    "answers.describe.describe.explain",
    "answers.relational.explain_relational",
    "catalog.state.apply",
    "language.continuous._Binder.bind",
    "language.joining.join_plan",
    "language.using.without_using",
    "operators.filters.adaptive_filter.Screen._screen",
    "operators.relation.advance.advance_relation",
    "synopses.finish.fold_windows",
}

MANY_PARAMETERS: set[str] = {
    "catalog.sharing.assign_stores",
    "operators.filters.profiling.profile_tuples",
    "operators.relation.advance.advance_relation",
    "operators.relation.early.with_early",
    "operators.rows.advance.advance_rows",
    "operators.windowed.advance.advance",
    "operators.windowed.catching_up.catch_up",
    "operators.windowed.smoothing.smoothed",
    "synopses.finish.fold_windows",
}

SAME_NAMES: set[str] = {
    "advance",
    "answers",
    "app",
    "archive",
    "block_files",
    "bounds",
    "copies",
    "derived",
    "describe",
    "early",
    "enums",
    "files",
    "functions",
    "history",
    "inner_streams",
    "instants",
    "intake",
    "joining",
    "landmarks",
    "lookups",
    "matching",
    "operator",
    "outputs",
    "pairs",
    "panes",
    "places",
    "probing",
    "queries",
    "reading",
    "records",
    "registry",
    "relational",
    "relations",
    "remote",
    "row_queries",
    "rows",
    "sampling",
    "segments",
    "selections",
    "serve",
    "state",
    "statements",
    "statistics",
    "stores",
    "streams",
    "subscription",
    "synopses",
    "tables",
    "unions",
    "user_functions",
    "windows",
}

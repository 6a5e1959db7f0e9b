"""docs/options.md says what the table of options and settings says.

MILLPOND_WRITE_DOCS=1 writes it anew.
"""

from __future__ import annotations

import os
from pathlib import Path

from millpond.types.options import (
    DerivedTerms,
    Limits,
    QueryOptions,
    Settings,
    StreamTerms,
    Table,
    TableTerms,
    options_of,
)

PAGE = Path(__file__).parent.parent / "docs" / "options.md"

HEAD = """# Options and settings

Every option and setting that there is. This page is made from the table that SQL, Python keywords, HTTP, `ALTER`,
`SHOW SETTINGS`, the OpenAPI document and completion are made from (`millpond.types.options`): whatever way a value
comes in, it is read by the same rules, and refused with the same words.

A span of time is written `'90 s'`, `'1 hour 30 minutes'` or `'00:01:30'`; from Python it may be a `timedelta` or whole
microseconds, in JSON whole microseconds. An instant is a timestamp in UTC, such as `'2024-05-01 12:00:00'`; from Python
it may be a `datetime`, there and in JSON whole microseconds since 1970. What is *live* may change while what it is of
runs: by `ALTER … SET`, where `DEFAULT` takes it back for queries and settings.
"""

PARTS: list[tuple[str, str, Table]] = [
    (
        "Settings of a pond",
        "Given by `millpond.open(path, target=1.0)` and `--set target=1`, changed by `ALTER SYSTEM SET target = 1`; see"
        " [settings that change live](system-stream.md#settings-that-change-live).",
        options_of(Settings),
    ),
    (
        "Standing queries",
        "`CREATE QUERY … WITH (early = '10s')`, `pond.register(text, early='10s')`, and `options` of"
        " `POST /v1/queries`. What a kind of query does not have is refused.",
        options_of(QueryOptions),
    ),
    (
        "Streams",
        "`CREATE STREAM s (…) WITH (lateness = '5s')`, and keywords of `pond.stream_from`; see"
        " [streams](language.md#streams).",
        options_of(StreamTerms),
    ),
    (
        "Derived streams",
        "`CREATE STREAM s WITH (retention = '2h') AS SELECT …`. Those of its query that are marked above, and these.",
        options_of(DerivedTerms),
    ),
    (
        "Limits of a server",
        "`millpond serve --limit page_rows=1000`, and `Limits(page_rows=1000)`; see [operating](operating.md).",
        options_of(Limits),
    ),
    ("Tables", "`CREATE TABLE t (…) WITH (path = 'x.csv')`; see [tables](language.md#tables).", options_of(TableTerms)),
]


def page() -> str:
    """The page as it should be."""
    parts = [HEAD]
    for title, how, table in PARTS:
        of_queries = any(option.of for option in table.values())
        columns = [
            "Option",
            "What for",
            "Values",
            "Default",
            "Live",
            *(["Of", "Derived streams"] if of_queries else []),
        ]
        lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
        for name, option in table.items():
            default = "" if option.default in (None, "") else f"`{option.kind.shown(option.default)}`"
            cells = [f"`{name}`", option.about, option.kind.expected, default, "yes" if option.live else ""]
            if of_queries:
                cells += [", ".join(option.of), "yes" if option.derived else ""]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        parts.append(f"## {title}\n\n{how}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


def test_the_page_is_current() -> None:
    if os.environ.get("MILLPOND_WRITE_DOCS") == "1":
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()

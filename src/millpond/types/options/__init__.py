"""Options and settings: each is declared once here, and read by one piece of code whatever way it comes in.

An option is added as a field of `QueryOptions`, `StreamTerms`, `DerivedTerms`, `TableTerms`, `Settings` or `Limits`.
SQL, Python keywords, HTTP, ALTER, SHOW SETTINGS, the OpenAPI document, completion and docs/options.md have it by that.
"""

from millpond.types.options.declared import Option, Table, live, option, options_of, read, stays, unknown
from millpond.types.options.pond_settings import Settings, read_settings
from millpond.types.options.query_options import QueryOptions
from millpond.types.options.server_limits import Limits
from millpond.types.options.stream_terms import DerivedTerms, StreamTerms, derived_options
from millpond.types.options.table_terms import TableTerms
from millpond.types.options.value_kinds import Kind, OptionFault

__all__ = [
    "DerivedTerms",
    "Kind",
    "Limits",
    "Option",
    "OptionFault",
    "QueryOptions",
    "Settings",
    "StreamTerms",
    "Table",
    "TableTerms",
    "derived_options",
    "live",
    "option",
    "options_of",
    "read",
    "read_settings",
    "stays",
    "unknown",
]

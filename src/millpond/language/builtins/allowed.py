"""The functions that queries may call: pure ones only, by DuckDB's names. What is not here is refused."""

from __future__ import annotations

from collections.abc import Mapping

from millpond.language.builtins.approximate import OURS, STATISTICS
from millpond.types import MERGED


def _words(text: str) -> list[str]:
    return text.split()


_MATH = """
abs acos acosh asin asinh atan atan2 atanh bit_count cbrt ceil ceiling cos cosh cot degrees divide even exp factorial
floor fmod gamma gcd greatest greatest_common_divisor isfinite isinf isnan lcm least least_common_multiple lgamma ln log
log10 log2 mod multiply nextafter pi pow power radians round round_even roundbankers sign signbit sin sinh sqrt tan tanh
trunc xor equi_width_bins fdiv add subtract
"""
_TEXT = """
ascii bar base64 bin bit_length char_length character_length chr concat concat_ws contains damerau_levenshtein decode
editdist3 encode ends_with format format_bytes from_base64 from_binary from_hex hamming hex instr jaccard
jaro_similarity jaro_winkler_similarity lcase left left_grapheme len length length_grapheme levenshtein like_escape
lower lpad ltrim md5 md5_number mismatches nfc_normalize octet_length ord parse_dirname parse_dirpath parse_filename
parse_path position prefix printf regexp_escape regexp_extract regexp_extract_all regexp_full_match regexp_matches
regexp_replace regexp_split_to_array repeat replace reverse right right_grapheme rpad rtrim sha1 sha256 split
split_part starts_with str_split str_split_regex string_split string_split_regex string_to_array strip_accents strlen
strpos substr substring substring_grapheme suffix to_base to_base64 to_binary to_hex translate trim ucase unbin unhex
unicode upper url_decode url_encode array_to_string
"""
_TIME = """
age century date_add date_diff date_part date_sub date_trunc datediff datepart datesub datetrunc day dayname dayofmonth
dayofweek dayofyear days_in_month decade epoch epoch_ms epoch_ns epoch_us era hour isodow isoyear julian last_day
make_date make_time make_timestamp make_timestamp_ms make_timestamp_ns make_timestamptz microsecond millennium
millisecond minute month monthname nanosecond normalized_interval quarter second strftime strptime time_bucket timezone
timezone_hour timezone_minute to_centuries to_days to_decades to_hours to_microseconds to_millennia to_milliseconds
to_minutes to_months to_quarters to_seconds to_timestamp to_weeks to_years try_strptime week weekday weekofyear year
yearweek
"""
_NESTED = """
array_append array_cat array_concat array_contains array_distance array_distinct array_extract array_has array_has_all
array_has_any array_indexof array_inner_product array_intersect array_length array_pop_back array_pop_front
array_position array_prepend array_push_back array_push_front array_reverse array_reverse_sort array_slice array_sort
array_unique array_value array_where array_zip cardinality element_at flatten list_append list_any_value list_avg
list_cat list_concat list_contains list_count list_distance list_distinct list_dot_product list_element list_extract
list_first list_has list_has_all list_has_any list_indexof list_inner_product list_intersect list_last list_max
list_median list_min list_mode list_pack list_position list_prepend list_product list_resize list_reverse
list_reverse_sort list_select list_slice list_sort list_stddev_pop list_stddev_samp list_string_agg list_sum list_unique
list_value list_var_pop list_var_samp list_where list_zip map map_concat map_contains map_entries map_extract
map_extract_value map_from_entries map_keys map_values row struct_concat struct_extract struct_insert struct_keys
struct_pack struct_values array_aggr array_aggregate array_apply array_cosine_distance array_cosine_similarity
array_cross_product array_dot_product array_filter array_grade_up array_negative_dot_product
array_negative_inner_product array_reduce array_resize array_select array_transform enum_code enum_first enum_last
enum_range generate_series grade_up list_aggr list_aggregate list_apply list_approx_count_distinct list_bit_and
list_bit_or list_bit_xor list_bool_and list_bool_or list_cosine_distance list_cosine_similarity list_entropy list_filter
list_grade_up list_histogram list_kurtosis list_kurtosis_pop list_mad list_negative_dot_product
list_negative_inner_product list_reduce list_sem list_skewness list_transform map_contains_entry map_contains_value
range struct_contains struct_extract_at struct_has struct_indexof struct_position struct_update union_extract union_tag
union_value
"""
_JSON = """
json_array json_array_length json_contains json_exists json_extract json_extract_path json_extract_path_text
json_extract_string json_keys json_object json_type json_valid json_value to_json array_to_json from_json
from_json_strict json_deep_merge json_insert json_merge_patch json_normalize json_pretty json_quote json_remove
json_replace json_set json_strip_nulls json_structure json_transform json_transform_strict row_to_json
"""
_OTHER = """
coalesce ifnull nullif hash typeof get_bit set_bit bit_position bitstring try overlay
uuid_extract_timestamp uuid_extract_version
"""

#: Scalar functions.
SCALARS = frozenset(_words(f"{_MATH} {_TEXT} {_TIME} {_NESTED} {_JSON} {_OTHER}"))

#: Aggregates of stream queries: every spelling, and the canonical name.
AGGREGATES: Mapping[str, str] = {
    **{
        name: name
        for name in (
            "count", "sum", "avg", "min", "max", "stddev_pop", "stddev_samp", "var_pop", "var_samp", "covar_pop",
            "covar_samp", "corr", "bool_and", "bool_or", "first", "last", "arg_min", "arg_max", "median",
            "quantile_cont", "quantile_disc", "mode", "string_agg", "list", "bit_and", "bit_or", "bit_xor", "product",
            "regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy", "regr_sxy", "regr_slope", "regr_intercept",
            "regr_r2", "skewness", "kurtosis", "kurtosis_pop",
        )
    },
    **STATISTICS,
    MERGED: MERGED,
    "count_if": "count_if",
    "countif": "count_if",
    "any_value": "any_value",
    "arbitrary": "first",
    "mean": "avg",
    "stddev": "stddev_samp",
    "variance": "var_samp",
    "argmin": "arg_min",
    "argmax": "arg_max",
    "min_by": "arg_min",
    "max_by": "arg_max",
    "quantile": "quantile_disc",
    "percentile_cont": "quantile_cont",
    "percentile_disc": "quantile_disc",
    "group_concat": "string_agg",
    "listagg": "string_agg",
    "array_agg": "list",
}  # fmt: skip

#: Aggregates that only SELECTs over tables (answers, and streams as tables) may call: they need no incremental form.
RELATION_AGGREGATES = (frozenset(AGGREGATES) - OURS - {MERGED}) | frozenset(
    _words(
        """
        approx_count_distinct approx_quantile approx_top_k bit_and bit_or bit_xor entropy favg fsum geomean
        geometric_mean histogram kahan_sum kurtosis kurtosis_pop mad product regr_avgx regr_avgy regr_count
        regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy sem skewness sumkahan grouping
        arg_max_null arg_min_null bitstring_agg histogram_exact json_group_array json_group_object
        json_group_structure sum_no_overflow wavg weighted_avg
        """
    )
)

#: Functions that need OVER, in SELECTs over answers and tables.
WINDOW_FUNCTIONS = frozenset(
    _words(
        """
        row_number rank dense_rank rank_dense percent_rank cume_dist ntile lag lead first_value last_value nth_value
        """
    )
)

#: What is written like a call and makes rows, columns or conditions, in SELECTs over tables.
RELATION_FORMS = frozenset(_words("unnest columns array any all"))

#: Every function that SELECTs over answers and tables may call.
RELATION_FUNCTIONS = SCALARS | RELATION_AGGREGATES | WINDOW_FUNCTIONS | RELATION_FORMS

#: Functions that stand in FROM and make rows out of their arguments.
TABLE_FUNCTIONS = frozenset(_words("generate_series range unnest json_each json_tree"))

_CLOCK = "its value depends on when it runs; use the stream's time instead"
_CHANCE = "its value differs with every run, so that an answer could not be repeated"
_OUTSIDE = "it reaches outside of the data"

#: Why well-known names are refused.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        _words(
            """
            now current_timestamp current_date current_time current_localtime current_localtimestamp localtime
            localtimestamp today get_current_time get_current_timestamp transaction_timestamp ago clock_timestamp
            """
        ),
        _CLOCK,
    ),
    **dict.fromkeys(
        _words("random uuid uuidv4 uuidv7 gen_random_uuid setseed nextval currval setval txid_current"), _CHANCE
    ),
    **dict.fromkeys(
        _words(
            """
            read_csv read_csv_auto read_parquet parquet_scan read_json read_json_auto read_ndjson read_ndjson_auto
            read_text read_blob read_xlsx glob sniff_csv parquet_metadata parquet_schema getenv current_setting query
            query_table duckdb_settings duckdb_tables duckdb_functions duckdb_secrets which_secret pragma_version
            write_log current_database current_schema current_schemas current_user session_user current_query version
            sqlite_scan postgres_scan mysql_scan delta_scan iceberg_scan load install attach copy getvariable sleep_ms
            """
        ),
        _OUTSIDE,
    ),
}

"""What `REDUCE …` behind a stream says, and how it is written."""

from __future__ import annotations

from dataclasses import dataclass

from millpond.types.columns import DAY, HOUR, MINUTE, SECOND

#: What may be written, by function.
FORMS = {
    "sample": "sample(0.4): 40 % of the rows are dropped",
    "age": "age('7 days', 0.9): of rows older than 7 days, 90 % are dropped; more pairs may follow",
    "load": "load(), or load(0.9): at most 90 % are dropped",
    "error": "error(0.01): read until the 95 % interval is the estimate +- 1 %",
    "interval": "BY INTERVAL '1 hour': answered from summaries of hours",
}


#: A group of which fewer rows were read is called small.
SMALL = 30


@dataclass(frozen=True)
class Reduction:
    """What `REDUCE …` behind a stream says: how much of its past a scan may leave out.

    function: 'sample', 'age', 'load', 'error', 'interval', or the name of a registered function.
    drops: fractions to drop, at least 0 and below 1: that of sample; of age one for each of `spans`; of load the most
        that it may drop.
    spans: microseconds; of age: of rows that are more than so much older than NOW, ascending; of interval: how long the
        intervals are.
    error: how narrow an interval error() asks for: half its width as a fraction of the estimate.
    arguments: constants given to a registered function: numbers and texts.
    """

    function: str
    drops: tuple[float, ...] = ()
    spans: tuple[int, ...] = ()
    error: float = 0.0
    arguments: tuple[int | float | str, ...] = ()

    @property
    def samples(self) -> bool:
        """Whether it leaves out rows, so that those read stand for others."""
        return self.function != "interval"


def reduction_text(reduction: Reduction) -> str:
    """The clause as it could be written.

    >>> reduction_text(Reduction("age", (0.5, 0.9), (3_600_000_000, 86_400_000_000)))
    "age('1h', 0.5, '1d', 0.9)"
    """
    if reduction.function == "interval":
        return f"BY INTERVAL '{interval_text(reduction.spans[0])}'"
    if reduction.function == "age":
        pairs = zip(reduction.spans, reduction.drops, strict=True)
        inside = ", ".join(f"'{interval_text(span)}', {drop:g}" for span, drop in pairs)
        return f"age({inside})"
    if reduction.function == "error":
        return f"error({reduction.error:g})"
    if reduction.function in ("sample", "load"):
        return f"{reduction.function}({', '.join(f'{d:g}' for d in reduction.drops)})"
    return f"{reduction.function}({', '.join(map(repr, reduction.arguments))})"


def interval_text(micros: int) -> str:
    """A length of time as it is written in a reduction.

    >>> interval_text(5_400_000_000), interval_text(86_400_000_000)
    ('90m', '1d')
    """
    for unit, size in (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND)):
        if micros and micros % size == 0:
            return f"{micros // size}{unit}"
    return f"{micros}us"

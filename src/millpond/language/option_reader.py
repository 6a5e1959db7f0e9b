"""Options by name, with the places of names and values, so that what is wrong can be pointed at."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from millpond.language.durations import parse_duration
from millpond.language.places import nearest
from millpond.support.errors import StatementError

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """One `name = value` with the places of both in the script."""

    name: str
    value: str
    place: tuple[int, int]
    value_place: tuple[int, int]


class OptionReader:
    """Options by name; takes what it is asked for and raises StatementError with the place of what is wrong."""

    def __init__(self, options: list[Option], known: Collection[str], script: str, place: tuple[int, int]) -> None:
        self.script, self.place = script, place
        self.options: dict[str, Option] = {}
        for option in options:
            if option.name not in known:
                raise self.fault(
                    f"there is no option '{option.name}' here", option.place, f"one of {', '.join(known)}",
                    nearest(option.name, known),
                )  # fmt: skip
            if option.name in self.options:
                raise self.fault(f"option '{option.name}' is given twice", option.place)
            self.options[option.name] = option

    def fault(self, message: str, place: tuple[int, int], expected: str = "", like: str = "") -> StatementError:
        """An error at `place`."""
        return StatementError(message, self.script, *place, expected, like)

    def without(self, names: Collection[str]) -> OptionReader:
        """A reader for the other options."""
        others = [option for name, option in self.options.items() if name not in names]
        return OptionReader(others, [*self.options], self.script, self.place)

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def text(self, name: str, default: T) -> str | T:
        """The value as written, or the default."""
        return self.options[name].value if name in self.options else default

    def read(self, name: str, reader: Callable[[str], T], expected: str) -> T | None:
        """The value through `reader` (raises ValueError), or None when it is not given."""
        if name not in self.options:
            return None
        option = self.options[name]
        try:
            return reader(option.value)
        except ValueError as fault:
            raise self.fault(f"option '{name}': {fault}", option.value_place, expected) from None

    def choice(self, name: str, choices: Collection[str], default: Any) -> Any:
        """One of `choices`, any case."""
        if name not in self.options:
            return default
        option = self.options[name]
        if option.value.lower() not in choices:
            raise self.fault(
                f"option '{name}' cannot be '{option.value}'", option.value_place,
                " or ".join(f"'{c}'" for c in choices), nearest(option.value, choices),
            )  # fmt: skip
        return option.value.lower()

    def span(self, name: str, example: str, zero: bool = False) -> int | None:
        """A duration in microseconds, longer than nothing unless `zero`."""

        def positive(text: str) -> int:
            value = parse_duration(text)
            if value < 0 or (value == 0 and not zero):
                raise ValueError(f"'{text}' must be longer than nothing")
            return value

        return self.read(name, positive, f"a span of time such as '{example}'")

    def boolean(self, name: str, default: bool) -> bool:
        """true or false."""
        return bool(self.choice(name, ("true", "false"), str(default).lower()) == "true")

    def conflict(self, name: str, reason: str) -> None:
        """Raise if `name` is given."""
        if name in self.options:
            raise self.fault(f"option '{name}' {reason}", self.options[name].place)

"""Options by name, with the places of names and values, so that what is wrong can be pointed at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from millpond.support.errors import StatementError
from millpond.types.options import OptionFault, Table, stays, unknown


@dataclass(frozen=True)
class Written:
    """One `name = value` with the places of both in the script."""

    name: str
    value: str
    place: tuple[int, int]
    value_place: tuple[int, int]


class OptionReader:
    """Options as a statement gives them.

    Arguments:
        written: what stands there. known: what may. script: the text; place: of the statement's name in it.
        fixed: those that cannot change, in an ALTER. resets: DEFAULT stands for a value, which is None.
    Raises: StatementError with the place of what is wrong: a name, or a value that its option cannot have.
    """

    def __init__(
        self,
        written: Sequence[Written],
        known: Table,
        script: str,
        place: tuple[int, int],
        *,
        fixed: Collection[str] = (),
        resets: bool = False,
    ) -> None:
        self.known, self.script, self.place = known, script, place
        self.options: dict[str, Written] = {}
        for option in written:
            self._check_name(option, fixed)
            self.options[option.name] = option
        self.values: dict[str, Any] = {
            o.name: None if resets and o.value.upper() == "DEFAULT" else self._read(o) for o in written
        }

    def _check_name(self, option: Written, fixed: Collection[str]) -> None:
        if option.name in fixed:
            raise self._at(option.place, stays(option.name, self.known))
        if option.name not in self.known:
            raise self._at(option.place, unknown(option.name, self.known))
        if option.name in self.options:
            raise self.fault(f"{self.known[option.name].called} is given twice", option.place)

    def _read(self, option: Written) -> Any:
        try:
            return self.known[option.name].read(option.value)
        except OptionFault as fault:
            start, end = option.value_place
            if fault.within is not None:
                at = start + (self.script[start] in "'\"")
                start, end = at + fault.within[0], min(end, at + fault.within[1])
            raise self._at((start, end), fault) from None

    def _at(self, place: tuple[int, int], fault: OptionFault) -> StatementError:
        return self.fault(fault.message, place, fault.expected, fault.nearest)

    def fault(self, message: str, place: tuple[int, int], expected: str = "", like: str = "") -> StatementError:
        """An error at `place`."""
        return StatementError(message, self.script, *place, expected, like)

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def place_of(self, name: str) -> tuple[int, int]:
        """Where the value of an option stands; of one that is not given, where the statement's name does."""
        return self.options[name].value_place if name in self.options else self.place

    def value(self, name: str) -> Any:
        """The value of an option, its default where it is not given."""
        return self.values.get(name, self.known[name].default)

    def conflict(self, name: str, reason: str) -> None:
        """Raise if `name` is given."""
        if name in self.options:
            raise self.fault(f"option '{name}' {reason}", self.options[name].place)

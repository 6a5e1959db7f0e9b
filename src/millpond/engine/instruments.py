"""What only the process that runs the epochs can tell of a pond, for SHOW, EXPLAIN and `status()`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from millpond.engine.control.controllers import Controllers
from millpond.engine.control.telemetry import Telemetry
from millpond.engine.intake.live_storage import LiveStorage


@dataclass(frozen=True)
class Instruments:
    """The gauges of a running pond, beside its view.

    storage: with what waits at each stream. telemetry: what the last epochs did. controllers: what was learnt from
    them. opened_with: the settings that this opening gave.
    """

    storage: LiveStorage
    telemetry: Telemetry
    controllers: Controllers
    opened_with: Mapping[str, Any]

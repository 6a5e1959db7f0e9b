"""The moments at which crash tests kill a process are there, also those that only the deep mode reaches."""

from __future__ import annotations

import tests.derived.crash_child as derived
import tests.engine.crash_child as engine
import tests.engine.mending_child as mending
import tests.engine.soup_child as soup


def test_every_moment_is_a_call_that_exists() -> None:
    named = {name: (m.owner, m.name) for name, m in (engine.MOMENTS | derived.MORE).items()}
    named |= {f"mending {name}": (m.owner, m.name) for name, m in mending.MORE.items()}
    named |= {f"soup {name}": (owner, call) for name, (owner, call, _) in soup.MOMENTS.items()}
    assert [name for name, (owner, call) in named.items() if not callable(getattr(owner, call, None))] == []

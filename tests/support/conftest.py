"""Fixtures of other rooms."""

from __future__ import annotations

from tests.server.conftest import served as served

"""Fixtures of the tenants' tests."""

from __future__ import annotations

import pytest

from tests.control.cast import Cast, make_cast


@pytest.fixture
def cast(db: None) -> Cast:
    """Keys of two tenants with different scopes."""
    return make_cast()

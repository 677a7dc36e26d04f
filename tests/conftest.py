"""What every test shares."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from postgresql_server import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]  # fixtures for all tests

# No deadline: how long an example takes depends on the machine, and no test here is about time.
settings.register_profile(
    "counton", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("counton")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs a server is slow."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow)

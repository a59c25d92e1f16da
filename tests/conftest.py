"""What holds for all tests: property tests and clients judge results, not how quick a loaded machine is; loggers are left as they
were.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator

import httpx
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")

# httpx gives up after five seconds where nothing else is said.
default = inspect.signature(httpx.Client).parameters["timeout"].default
default.connect = default.read = default.write = default.pool = 60.0


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """A test that starts the service points the access log to standard output; the next one reads it through pytest."""
    access = logging.getLogger("autohedge.access")
    handlers, propagate = access.handlers, access.propagate
    yield
    access.handlers, access.propagate = handlers, propagate

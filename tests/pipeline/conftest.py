"""The engine's log lines are of interest where a test asks for them, and tracebacks of provoked errors nowhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog
from structlog.testing import LogCapture


@pytest.fixture(autouse=True)
def log() -> Iterator[LogCapture]:
    """What was logged."""
    before = structlog.get_config()
    capture = LogCapture()
    structlog.configure(processors=[capture], cache_logger_on_first_use=False)
    yield capture
    structlog.configure(**before)

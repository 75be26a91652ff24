"""People, rules and a site of its own, from the tests of the web and of the live page."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

import pytest

from tests.live.conftest import live, owner, site, story, writer
from tests.web.conftest import login, people

from .receiver import Receiver, receiving

__all__ = ["live", "login", "owner", "people", "receiver", "site", "story", "writer"]


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    """Somebody who takes messages, on an address that is allowed."""
    settings.ALERT_NETWORKS = [ip_network("127.0.0.0/8")]
    with receiving() as made:
        yield made

"""A site of its own for each test: a fresh database, Django acting in it as the web's role, its own hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
from django.db import connections
from psycopg.conninfo import conninfo_to_dict

from cuzk_web.live import hub
from prover.stack.roles import OWNER, SITE
from tests.postgres import Database

from .story import Story
from .writer import Writer

START_US = 1_800_000_000 * 1_000_000


@pytest.fixture
def site(database: Database, django_db_blocker: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Django's default database is the fresh one, under the web's role, in every thread."""
    url = conninfo_to_dict(database.url(SITE))
    settings = connections["default"].settings_dict
    named = {"NAME": url["dbname"], "USER": url["user"], "PASSWORD": url["password"]}
    for key, value in (named | {"HOST": url["host"], "PORT": str(url["port"]), "CONN_MAX_AGE": 0}).items():
        monkeypatch.setitem(settings, key, value)
    connections["default"].close()
    with django_db_blocker.unblock():
        yield database
        connections["default"].close()


@pytest.fixture
def writer(site: Database) -> Iterator[Writer]:
    with site.connect(OWNER) as connection:
        yield Writer(connection)


@pytest.fixture
def story() -> Story:
    story = Story(now_us=START_US)
    story.start()
    return story


@pytest.fixture
async def live(site: Database) -> AsyncIterator[hub.Hub]:
    """The hub of the test's event loop."""
    yield hub.hub()
    await hub.close()


@pytest.fixture
def owner(site: Database) -> Iterator[psycopg.Connection[Any]]:
    with site.connect(OWNER) as connection:
        yield connection

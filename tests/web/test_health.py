"""/livez touches nothing; /readyz says what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from django.db import connections
from django.test import Client
from psycopg.conninfo import conninfo_to_dict

from cuzk_web import health
from prover.stack.roles import OWNER, SITE
from tests.postgres import Database


@pytest.fixture
def site(database: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database that is looked at, by the web's role."""
    url = conninfo_to_dict(database.url(SITE))
    for key, name in (
        ("NAME", "dbname"),
        ("USER", "user"),
        ("PASSWORD", "password"),
        ("HOST", "host"),
        ("PORT", "port"),
    ):
        monkeypatch.setitem(connections["default"].settings_dict, key, str(url[name]))
    yield database


def test_livez_touches_no_database() -> None:
    answer = Client().get("/livez")  # pytest-django forbids the database here
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.postgres
def test_readyz_when_all_is_well(site: Database) -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["ready"] is True and answer.json()["reasons"] == []


@pytest.mark.postgres
def test_readyz_names_a_migration_that_is_missing(site: Database) -> None:
    with site.connect(OWNER) as owner:
        owner.execute("DELETE FROM django_migrations WHERE app = 'accounts' AND name = '0001_initial'")
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["migrations not applied: accounts.0001_initial"]


@pytest.mark.postgres
def test_readyz_when_the_database_is_away(site: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(connections["default"].settings_dict, "PORT", "1")
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["database: database_unreachable"]  # neither host nor user


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("age", "reason"),
    [(1.0, None), (60.2, "live: the event log was read 60 s ago"), (None, "live: the event log has not been read yet")],
)
def test_readyz_tells_the_age_of_the_live_page(
    site: Database, monkeypatch: pytest.MonkeyPatch, age: float | None, reason: str | None
) -> None:
    monkeypatch.setattr("cuzk_web.health.running", lambda: [SimpleNamespace(age_s=age)])
    answer = Client().get("/readyz")
    assert answer.status_code == (200 if reason is None else 503)
    assert answer.json()["reasons"] == ([] if reason is None else [reason])
    assert answer.json()["live_age_s"] == age


def test_many_who_ask_at_once_take_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody needs to log in for it: a flood must not take the provers' connections."""
    looks: list[int] = []

    async def look() -> list[str]:
        looks.append(1)
        await asyncio.sleep(0.05)
        return []

    async def ask() -> list[list[str]]:
        first = await asyncio.gather(*(health._database() for _ in range(50)))
        return [*first, await health._database()]

    monkeypatch.setattr(health, "_unapplied", look)
    assert asyncio.run(ask()) == [[]] * 51
    assert len(looks) == 2


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_only_reading(path: str) -> None:
    assert Client().post(path).status_code == 405

"""/livez touches nothing; /readyz says what is wrong."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from django.test.utils import CaptureQueriesContext


def test_livez_touches_no_database() -> None:
    answer = Client().get("/livez")  # pytest-django forbids the database here
    assert (answer.status_code, answer.content) == (200, b"ok\n")


@pytest.mark.postgres
@pytest.mark.django_db
def test_readyz_when_all_is_well() -> None:
    answer = Client().get("/readyz")
    assert answer.status_code == 200
    assert answer.json()["ready"] is True and answer.json()["reasons"] == []


@pytest.mark.postgres
@pytest.mark.django_db
def test_readyz_names_a_migration_that_is_missing() -> None:
    MigrationRecorder(connection).migration_qs.filter(app="accounts", name="0001_initial").delete()
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["migrations not applied: accounts.0001_initial"]


@pytest.mark.postgres
@pytest.mark.django_db
def test_readyz_writes_nothing() -> None:
    with CaptureQueriesContext(connection) as captured:
        Client().get("/readyz")
    assert not [q["sql"] for q in captured if not q["sql"].lstrip().upper().startswith("SELECT")]


@pytest.mark.postgres
@pytest.mark.django_db
def test_readyz_when_the_database_is_away(monkeypatch) -> None:
    from django.db import OperationalError

    def refuse() -> None:
        raise OperationalError("connection to 10.0.0.1 refused for user secret")

    monkeypatch.setattr(connection, "ensure_connection", refuse)
    answer = Client().get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["database: OperationalError"]  # neither host nor user


@pytest.mark.postgres
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("age", "reason"),
    [(1.0, None), (60.2, "live: the event log was read 60 s ago"), (None, "live: the event log has not been read yet")],
)
def test_readyz_tells_the_age_of_the_live_page(monkeypatch, age: float | None, reason: str | None) -> None:
    monkeypatch.setattr("cuzk_web.health.running", lambda: [SimpleNamespace(age_s=age)])
    answer = Client().get("/readyz")
    assert answer.status_code == (200 if reason is None else 503)
    assert answer.json()["reasons"] == ([] if reason is None else [reason])
    assert answer.json()["live_age_s"] == age


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_only_reading(path: str) -> None:
    assert Client().post(path).status_code == 405

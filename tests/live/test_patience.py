"""A statement that is under way when the database freezes ends with an error, and its connection with it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError, connections

from cuzk_web import env, patience
from tests.postgres import Database

from .freezing import frozen

pytestmark = pytest.mark.postgres


async def test_one_of_the_hub(own_server: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience.PatientConnection, "answer_s", 0.5)
    async with await patience.PatientConnection.connect(own_server.url(), autocommit=True) as connection:
        await connection.execute("SELECT 1")
        with frozen(own_server.server), pytest.raises(patience.NoAnswer):
            await connection.execute("SELECT 2")
        assert connection.closed


def test_one_of_a_page(own_server: Database, monkeypatch: pytest.MonkeyPatch, django_db_blocker: Any) -> None:
    """Django's own connections, as the serving process makes them."""
    monkeypatch.setattr(patience, "ANSWER_S", 0.5)
    made = connections.create_connection("default")
    made.settings_dict = {**made.settings_dict, **env.database(own_server.url())}
    patience.serve_patiently()
    try:
        with django_db_blocker.unblock(), made.cursor() as cursor:
            cursor.execute("SHOW statement_timeout")
            assert cursor.fetchone() == (f"{patience.STATEMENT_S}s",)
            with frozen(own_server.server), pytest.raises(OperationalError, match="the database does not answer"):
                cursor.execute("SELECT 1")
            assert made.connection.closed
    finally:
        patience.connection_created.disconnect(dispatch_uid="patience")
        made.close()

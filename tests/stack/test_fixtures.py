"""The fixtures of tests/postgres.py hold what they promise."""

import psycopg
import pytest
from django.contrib.auth import get_user_model
from django.db import connection

from prover.stack.roles import SITE
from tests.postgres import Database

pytestmark = pytest.mark.postgres


def test_clone_is_migrated_and_empty(database: Database) -> None:
    with database.connect() as owner:
        assert owner.execute("SELECT count(*) FROM transition").fetchone() == (0,)
        assert owner.execute("SELECT count(*) > 0 FROM django_migrations").fetchone() == (True,)


def test_logins_are_who_they_say(web_dsn: str, prover_dsn: str, owner_dsn: str) -> None:
    for url, name in ((web_dsn, "cuzk_site"), (prover_dsn, "cuzk_daemon"), (owner_dsn, "cuzk_owner")):
        with psycopg.connect(url) as login:
            assert login.execute("SELECT current_user").fetchone() == (name,)


def test_wrong_password_is_refused(database: Database) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(database.url(SITE), password="wrong")


@pytest.mark.django_db
def test_django_uses_the_same_server(database: Database) -> None:
    get_user_model().objects.create(username="alice")
    assert connection.settings_dict["PORT"] == str(database.server.port)
    assert connection.settings_dict["NAME"] == "test_django"

"""Real Postgres for tests: one embedded server a run, one migrated template, a clone of it for each test that asks.

* `database`: a fresh clone; `.url(role)` and `.connect(role)` for the roles OWNER, DAEMON (the prover) and SITE (web).
* `owner_dsn`, `prover_dsn`, `web_dsn`: URLs of the same clone.
* pytest-django's own fixtures (`db`, `transactional_db`, the mark `django_db`) use a test database on the same server,
  as its owner; `web_role` makes Django's connection of this thread act with the web's rights.
* `own_server`: a second server that a test may stop and start.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from prover.stack.passwords import password
from prover.stack.postgres import EmbeddedPostgres
from prover.stack.roles import DAEMON, OWNER, SITE, make_database, make_roles

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = "cuzk_template"


@dataclass(frozen=True)
class Database:
    """One migrated database on a server."""

    server: EmbeddedPostgres
    name: str

    def url(self, role: str = DAEMON) -> str:
        return self.server.url(role, self.name)

    @contextmanager
    def connect(self, role: str = OWNER) -> Iterator[psycopg.Connection]:
        """A connection in autocommit that is closed at the end."""
        with psycopg.connect(self.url(role), autocommit=True) as connection:
            yield connection


def migration(url: str, *target: str) -> subprocess.Popen[str]:
    """A process that runs Django's migrations, as the stack does. `target`: an app, and how far."""
    env = os.environ | {"DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "tests.settings"}
    command = [sys.executable, "manage.py", "migrate", *target, "--verbosity", "0"]
    return subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def migrate(url: str, *target: str) -> None:
    """Run Django's migrations to their end."""
    with migration(url, *target) as process:
        _, errors = process.communicate()
    assert process.returncode == 0, errors


@contextmanager
def migrated_to(template: Database, name: str) -> Iterator[Database]:
    """A new database on the template's server, with the tables of `fleet` as of an earlier migration."""
    database = Database(template.server, f"test_{secrets.token_hex(6)}")
    with template.server.connect() as connection:
        make_database(connection, database.name)
    try:
        migrate(database.url(OWNER), "fleet", name)
        yield database
    finally:
        with template.server.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database.name)))


def prepare(server: EmbeddedPostgres, name: str) -> Database:
    """Roles and a migrated database on a fresh server."""
    with server.connect() as connection:
        make_roles(connection, lambda role: password(server.secrets, role))
        make_database(connection, name)
        connection.execute(sql.SQL("ALTER ROLE {} CREATEDB").format(sql.Identifier(OWNER)))
        connection.execute(sql.SQL("GRANT cuzk_web, cuzk_prover TO {}").format(sql.Identifier(OWNER)))
    database = Database(server, name)
    migrate(database.url(OWNER))
    return database


@contextmanager
def open_folder() -> Iterator[Path]:
    """A new folder that others may pass through, as pytest's own are not: root's server runs as another user."""
    with tempfile.TemporaryDirectory(prefix="cuzk-pg-", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o711)
        yield Path(folder)


@contextmanager
def running_server(durable: bool = False) -> Iterator[EmbeddedPostgres]:
    with open_folder() as folder, EmbeddedPostgres(folder, durable=durable) as server:
        yield server


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """The server of this run."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def template(postgres: EmbeddedPostgres) -> Database:
    """The migrated database that others are cloned from. Nobody connects to it afterwards."""
    return prepare(postgres, TEMPLATE)


@contextmanager
def cloned(template: Database) -> Iterator[Database]:
    """A copy of the template that goes at the end; the server is started when the test left it stopped."""
    server, name = template.server, f"test_{secrets.token_hex(6)}"
    words = (sql.Identifier(name), sql.Identifier(template.name), sql.Identifier(OWNER))
    with server.connect() as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {} OWNER {} STRATEGY file_copy").format(*words))
    yield Database(server, name)
    if server.process is None:
        server.start()
    with server.connect() as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@pytest.fixture
def database(template: Database) -> Iterator[Database]:
    """A fresh migrated database."""
    with cloned(template) as database:
        yield database


@pytest.fixture
def owner_dsn(database: Database) -> str:
    return database.url(OWNER)


@pytest.fixture
def prover_dsn(database: Database) -> str:
    return database.url(DAEMON)


@pytest.fixture
def web_dsn(database: Database) -> str:
    return database.url(SITE)


@pytest.fixture(scope="module")
def own_template() -> Iterator[Database]:
    """A second server, with a template of its own."""
    with running_server() as server:
        server.fixed_port = server.port
        yield prepare(server, TEMPLATE)


@pytest.fixture
def own_server(own_template: Database) -> Iterator[Database]:
    """A fresh database on a server that the test may stop, kill and start; its port stays the same."""
    with cloned(own_template) as database:
        yield database


@pytest.fixture(scope="session")
def django_db_modify_db_settings(template: Database) -> None:
    """pytest-django's hook: put its test database on our server, made from our template."""
    from django.conf import settings

    url = psycopg.conninfo.conninfo_to_dict(template.url(OWNER))
    settings.DATABASES["default"].update(
        NAME="cuzk", HOST=url["host"], PORT=str(url["port"]), USER=url["user"], PASSWORD=url["password"]
    )
    settings.DATABASES["default"]["TEST"].update(NAME="test_django", TEMPLATE=template.name)


@pytest.fixture
def web_role(db: None) -> Iterator[None]:
    """Django's connection of this thread has the web's rights and no more."""
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SET ROLE cuzk_web")
    yield
    with connection.cursor() as cursor:
        cursor.execute("RESET ROLE")

"""The database's roles: groups that hold the rights (granted by migrations), and one login for each of us.

| login | member of | may |
|---|---|---|
| cuzk_owner | - | owns the database and its tables; runs the migrations |
| cuzk_daemon | cuzk_prover | what a prover does |
| cuzk_site | cuzk_web | what the web does |
"""

from __future__ import annotations

from collections.abc import Callable

import psycopg
from psycopg import sql

OWNER, DAEMON, SITE = "cuzk_owner", "cuzk_daemon", "cuzk_site"
GROUP_OF = {DAEMON: "cuzk_prover", SITE: "cuzk_web"}
DATABASE = "cuzk"


def make_roles(connection: psycopg.Connection, password: Callable[[str], str]) -> None:
    """Make the groups and the logins with their passwords; sets the passwords again when they exist."""
    for group in GROUP_OF.values():
        _make_role(connection, group, sql.SQL("NOLOGIN"))
    for login in (OWNER, *GROUP_OF):
        _make_role(connection, login, sql.SQL("LOGIN PASSWORD {}").format(sql.Literal(password(login))))
    for login, group in GROUP_OF.items():
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(group), sql.Identifier(login)))


def make_database(connection: psycopg.Connection, name: str = DATABASE) -> None:
    """Make the database, owned by the owner and closed to everybody whom no migration names."""
    if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone() is None:
        words = (sql.Identifier(name), sql.Identifier(OWNER))
        connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(*words))
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(name)))
    for group in GROUP_OF.values():
        words = (sql.Identifier(name), sql.Identifier(group))
        connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(*words))


def _make_role(connection: psycopg.Connection, name: str, attributes: sql.Composable) -> None:
    exists = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [name]).fetchone()
    verb = sql.SQL("ALTER ROLE {} {}") if exists else sql.SQL("CREATE ROLE {} {}")
    connection.execute(verb.format(sql.Identifier(name), attributes))

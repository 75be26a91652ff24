"""Connections that fail soon rather than hang, and say what kind of failure it was."""

from __future__ import annotations

from typing import Any

import psycopg

#: a statement that takes longer is a database in trouble; a client that is stopped inside a transaction loses it, so
#: that its locks cannot outlive its lease
OPTIONS = (
    "-c statement_timeout=10s -c lock_timeout=8s -c idle_in_transaction_session_timeout=5s -c synchronous_commit=on"
    " -c timezone=UTC"
)
CONNECT_TIMEOUT = 3  # seconds

#: how PostgreSQL begins to say 53300: libpq gives no SQL state of a connection that was refused. A server that speaks
#: another language is taken to be away
_TOO_MANY = ("sorry, too many clients", "remaining connection slots are reserved", "too many connections for ")


#: what every connection asks of libpq: keepalives and time limits find a server that is gone
PARAMETERS: dict[str, Any] = {
    "options": OPTIONS, "connect_timeout": CONNECT_TIMEOUT, "keepalives_idle": 5, "keepalives_interval": 2,
    "keepalives_count": 3, "tcp_user_timeout": 10_000,
}  # fmt: skip


def connect(dsn: str, name: str) -> psycopg.Connection:
    """A connection in autocommit. Raises psycopg.OperationalError when the database does not answer."""
    return psycopg.connect(dsn, autocommit=True, application_name=name, **PARAMETERS)


async def connect_async(dsn: str, name: str) -> psycopg.AsyncConnection[Any]:
    """The same for an event loop."""
    return await psycopg.AsyncConnection.connect(dsn, autocommit=True, application_name=name, **PARAMETERS)


def is_full(error: psycopg.Error) -> bool:
    """Whether the database refuses because it has no room: the SQL states of class 53, or no connection is free."""
    if error.sqlstate is None:
        return any(words in str(error) for words in _TOO_MANY)
    return error.sqlstate.startswith("53")


def is_away(error: BaseException) -> bool:
    """Whether the same may succeed later: the server is gone, starting, stopping, full, or somebody was in the way."""
    return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)

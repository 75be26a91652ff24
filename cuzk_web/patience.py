"""How long the site waits for its database. One that is frozen, or behind a network that swallows all, sends no error:
without a bound of our own, whoever asks it something waits for ever.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created
from psycopg.pq import TransactionStatus

STATEMENT_S: Final = 12  # the database itself ends a page's statement that takes longer
LOOK_S: Final = 0.1  # how often a wait looks at the clock
ANSWER_S: Final = 15.0  # until there must be an answer to a statement; a submission of 128 MiB is one


class NoAnswer(psycopg.OperationalError):
    """The database does not answer."""


class PatientConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """Every statement has an answer within `answer_s`, or ends with NoAnswer and the connection."""

    answer_s = ANSWER_S

    async def wait(self, gen: Any, interval: float = LOOK_S, timeout: float | None = None) -> Any:
        """As psycopg's, but never for ever."""
        try:
            return await super().wait(gen, interval, self.answer_s if timeout is None else timeout)
        except psycopg.OperationalError as error:
            _give_up(self, error)
            raise


def serve_patiently() -> None:
    """From now on hold Django's connections to the bounds. For a process that serves: a migration may take its time."""
    connection_created.connect(_bound, dispatch_uid="patience")


def _bound(sender: object, connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Bound every wait of a connection that Django has just made."""
    driver: psycopg.Connection = connection.connection
    plain = driver.wait

    def wait(gen: Any, interval: float = LOOK_S, timeout: float | None = None) -> Any:
        try:
            return plain(gen, interval, ANSWER_S if timeout is None else timeout)
        except psycopg.OperationalError as error:
            _give_up(driver, error)
            raise

    driver.wait = wait  # type: ignore[method-assign]
    driver.execute(f"SET statement_timeout = '{STATEMENT_S}s'")


def _give_up(connection: psycopg.Connection | psycopg.AsyncConnection, error: psycopg.OperationalError) -> None:
    """A statement that is still under way after an error is one whose answer did not come: nothing can follow it."""
    if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
        connection.pgconn.finish()
        raise NoAnswer("the database does not answer") from error

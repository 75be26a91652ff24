"""Why the database did not do what was asked of it: one class a cause, told apart by the SQLSTATE that it sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ClassVar, Final, ParamSpec, TypeVar

import django.db
import psycopg
from django.db import connection

from prover.errors import CuzkError

P = ParamSpec("P")
T = TypeVar("T")


class DatabaseFault(CuzkError):
    """The database did not do what was asked of it."""

    title: ClassVar[str]
    status: ClassVar[int] = 503
    #: seconds after which the same may be asked again; None: somebody has to do something first
    again_s: ClassVar[int | None] = None


class DatabaseUnreachable(DatabaseFault):
    """The database is away or hangs. Try again in a moment: what you sent may have arrived, and twice does no harm."""

    code = "database_unreachable"
    title = "The database does not answer"
    again_s = 5


class DatabaseTimeout(DatabaseFault):
    """The database took longer than a page waits for it (12 s), stopped, and undid what it had begun."""

    code = "database_timeout"
    title = "The database took too long"
    status = 504


class DatabaseConflict(DatabaseFault):
    """Others changed the same at the same moment, and the database undid this. Try again."""

    code = "database_conflict"
    title = "The database undid this"
    again_s = 1


class DatabaseDiskFull(DatabaseFault):
    """The disk of the database is full: it takes nothing new until there is room."""

    code = "database_disk_full"
    title = "The disk of the database is full"
    status = 507


class DatabaseExhausted(DatabaseFault):
    """The database has used up the memory, or another resource, that its settings give it."""

    code = "database_exhausted"
    title = "The database has used up what it has"


class DatabaseConnections(DatabaseFault):
    """All connections that the database allows are in use. Try again in a moment; when it lasts, it allows too few."""

    code = "database_connections"
    title = "The database has no free connection"
    again_s = 5


class DatabaseLoginRefused(DatabaseFault):
    """The database answers, but refuses this site's login, or does not have its database: DATABASE_URL is wrong."""

    code = "database_login_refused"
    title = "The database refuses this site"


#: SQLSTATE, or its class, to the cause; the longer one counts
_CAUSES: Final[dict[str, type[DatabaseFault]]] = {
    "08": DatabaseUnreachable,
    "57P01": DatabaseUnreachable,  # shuts down
    "57P02": DatabaseUnreachable,  # another of its processes crashed
    "57P03": DatabaseUnreachable,  # starts
    "57P05": DatabaseUnreachable,  # ends sessions that are idle
    "57014": DatabaseTimeout,
    "55P03": DatabaseTimeout,  # of the wait for a lock
    "40": DatabaseConflict,
    "53": DatabaseExhausted,
    "53100": DatabaseDiskFull,
    "53300": DatabaseConnections,
    "28": DatabaseLoginRefused,
    "3D000": DatabaseLoginRefused,
    "57P04": DatabaseLoginRefused,  # the database was dropped
}

#: A connection that was refused brings no SQLSTATE with it (libpq gives the text alone). So a server whose messages
#: are in another language is merely unreachable here.
_REFUSALS: Final = (
    ("too many clients already", DatabaseConnections),
    ("remaining connection slots are reserved", DatabaseConnections),
    ("too many connections for", DatabaseConnections),
    ("authentication failed", DatabaseLoginRefused),
    ("no password supplied", DatabaseLoginRefused),
    ("no pg_hba.conf entry", DatabaseLoginRefused),
    ("is not permitted to log in", DatabaseLoginRefused),
    ("permission denied for database", DatabaseLoginRefused),
    ('" does not exist', DatabaseLoginRefused),
)


def causes() -> set[type[DatabaseFault]]:
    """All of them."""
    return set(_CAUSES.values())


def fault(error: BaseException | None) -> DatabaseFault | None:
    """What an exception of Django or of the driver says of the database; None when it is an error of another kind."""
    for one in _with_causes(error):
        if isinstance(one, psycopg.Error) and one.sqlstate is not None:
            cause = _CAUSES.get(one.sqlstate) or _CAUSES.get(one.sqlstate[:2])
            return cause() if cause else None
        if isinstance(one, psycopg.OperationalError | psycopg.InterfaceError):
            return _without_state(str(one))
    away = isinstance(error, django.db.OperationalError | django.db.InterfaceError)
    return DatabaseUnreachable() if away else None


def made_again(work: Callable[P, T]) -> Callable[P, T]:
    """Make `work` once more when the database undid it for a conflict with others.

    For what is one transaction and, done twice, is as done once. Within a transaction of the caller's there is nothing
    to make again: the whole of it was undone.
    """

    @wraps(work)
    def twice(*args: P.args, **kwargs: P.kwargs) -> T:
        within = connection.in_atomic_block
        try:
            return work(*args, **kwargs)
        except django.db.Error as error:
            if within or not isinstance(fault(error), DatabaseConflict):
                raise
        return work(*args, **kwargs)

    return twice


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _without_state(text: str) -> DatabaseFault:
    return next((cause() for words, cause in _REFUSALS if words in text), DatabaseUnreachable())

"""What can go wrong between the prover and the database."""

from __future__ import annotations

from prover.errors import CuzkError, RequestConflict

__all__ = ["DatabaseAway", "DatabaseFull", "ProverNameTaken", "RequestConflict", "SessionLost", "SpoolFull"]


class DatabaseAway(CuzkError):
    """The database does not answer."""

    code = "database_away"
    retryable = True


class DatabaseFull(DatabaseAway):
    """The database has no room: its disk, its memory or its connections are used up."""

    code = "database_full"


class SessionLost(CuzkError):
    """The session is not current in the database any more: its lease ran out, or another took its place."""

    code = "session_lost"


class ProverNameTaken(CuzkError):
    """Another prover of this name is running; give this one a name of its own."""

    code = "prover_name_taken"


class SpoolFull(CuzkError):
    """The disk of the local spool is full or refuses to write; nothing new is claimed until it accepts again."""

    code = "spool_full"
    retryable = True

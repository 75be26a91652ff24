"""What can go wrong between the prover and the database."""

from __future__ import annotations

from prover.errors import CuzkError, InvalidInput, RequestConflict

__all__ = [
    "DatabaseAway", "DatabaseFull", "ProverNameTaken", "RecordDamaged", "RecordRefused", "RequestConflict",
    "SessionLost", "SpoolFull", "SpoolUnwritable",
]  # fmt: skip


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
    """The disk of the local spool is full, nearly full, or refuses to write; nothing new is claimed meanwhile."""

    code = "spool_full"
    retryable = True


class SpoolUnwritable(CuzkError):
    """The folder of the spool cannot be written: its file system is read-only, or it is not ours."""

    code = "spool_unwritable"


class RecordRefused(CuzkError):
    """The database refuses a record of the journal; it is kept in SESSION.refused beside the spool."""

    code = "record_refused"


class RecordDamaged(CuzkError):
    """A line of a spool cannot be read back; it is kept in SESSION.refused beside the spool."""

    code = "record_damaged"


class ProverUnknown(InvalidInput):
    """No prover of this name has ever used this database."""

    code = "prover_unknown"

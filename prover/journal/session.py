"""The beginning of a session: its row, the end of its predecessors, and what they left."""

from __future__ import annotations

import os
import socket
import time
import uuid
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import psutil
import psycopg
import structlog

from . import spool
from .aside import Aside
from .errors import ProverNameTaken
from .ledger import Ledger

WAIT = 30.0  # seconds for the lease of a predecessor that may be alive to run out

log = structlog.get_logger(__name__)

_OPEN = """INSERT INTO session (id, prover, state, state_at, times, detail, moved_seq, host, machine, pid, version,
        head_seq, started_at, heartbeat_at, lease_until)
    VALUES (%s, %s, '', now(), '{}', '{}', 0, %s, %s, %s, %s, 0, now(), now(), now() + lease_length())"""
_PREDECESSORS = """SELECT id::text, machine, pid, started_at FROM session
    WHERE prover = %s AND state IN ('', 'starting', 'online') ORDER BY started_at"""

_WISHES = """SELECT id, admin, to_us(admin_at) FROM worker WHERE prover = %s AND admin_moved_by IS NOT NULL
    ORDER BY id"""


@dataclass(frozen=True, slots=True)
class AdminWish:
    """What people wanted of a worker, from earlier sessions."""

    worker: str
    admin: str
    at_us: int


def open_session(connection: psycopg.Connection, prover: str, version: str) -> str:
    """Begin a session of `prover`; returns its id. Its predecessors have ended then, and their jobs are free.

    Raises ProverNameTaken when another process of that name lives.
    """
    if prover == "site":
        raise ProverNameTaken("'site' is the name of the web's own session")
    _end_predecessors(connection, prover)
    session = str(uuid.uuid4())
    connection.execute(_OPEN, [session, prover, socket.gethostname(), machine(), os.getpid(), version])
    return session


def admin_wishes(connection: psycopg.Connection, prover: str) -> list[AdminWish]:
    """The wishes for all workers that the prover ever had."""
    return [AdminWish(*row) for row in connection.execute(_WISHES, [prover])]


def machine() -> str:
    """Where a process id means something: this boot, this process namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return socket.gethostname()


def _end_predecessors(connection: psycopg.Connection, prover: str) -> None:
    deadline = time.monotonic() + WAIT
    while rows := connection.execute(_PREDECESSORS, [prover]).fetchall():
        for session, where, pid, started_at in rows:
            if where == machine() and not _lives(pid, started_at):
                connection.execute("SELECT supersede_session(%s)", [session])
                log.info("predecessor is dead", session=session, pid=pid)
            elif where == machine() or time.monotonic() > deadline:
                raise ProverNameTaken(f"{prover!r} runs already (process {pid}, session {session})")
        connection.execute("SELECT mark_lost()")
        if connection.execute(_PREDECESSORS, [prover]).fetchone():
            time.sleep(1)


def _lives(pid: int | None, started_at: datetime) -> bool:
    """Whether the process that began the session is still there: a later one may have got its number."""
    try:
        process = psutil.Process(pid or -1)
        older: bool = process.create_time() <= started_at.timestamp() + 1
        return older and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError):
        return False


# -- what dead sessions left on this machine ---------------------------------------------------------------------------


def recover(connection: psycopg.Connection, folder: Path) -> None:
    """Bring what the spools of dead sessions hold into the database, before their sessions are ended.

    When a session is current still, its states are written as its own writer would have; else its proofs are kept and
    its states logged. A record that is refused is set aside alone; a file that is no spool is set aside whole. Raises
    psycopg's errors of a database in trouble, and then the spool stays as it is.
    """
    for path in spool.left_behind(folder):
        session = spool.owner(path)
        if session is None or not _is_known(connection, session):
            _set_aside(path)
        else:
            _recover_file(connection, path, session)


def _recover_file(connection: psycopg.Connection, path: Path, session: str) -> None:
    aside = Aside(path.parent, session)
    ledger = Ledger(session, aside)
    ledger.reconnect(connection)
    content = spool.read(path, aside.keep_line)
    ledger.replay(connection, content.records)
    if aside.flush():
        log.warning("spool recovered", session=session, late=ledger.late, damaged=content.damaged, file=str(path))
        path.unlink()
    else:
        log.error("spool recovered, but kept: what was refused could not be set aside", file=str(path))


def _set_aside(path: Path) -> None:
    log.error("no spool of a session that this database knows; set aside", file=str(path))
    path.rename(path.with_suffix(".unreadable"))


def _is_known(connection: psycopg.Connection, session: str) -> bool:
    try:
        uuid.UUID(session)
    except ValueError:
        return False
    return connection.execute("SELECT 1 FROM session WHERE id = %s", [session]).fetchone() is not None

"""The heartbeat process: ``python -m prover.journal.beat`` with its settings as one JSON line on stdin.

A process of its own, so that neither the device nor the interpreter lock of the prover can starve it. It renews the
lease every 2 s as long as its parent lives and runs, and reports how long ago the engine's own loop gave a sign of
life. It also looks for other sessions whose lease ran out. It ends when its parent ends (the pipe closes), or when the
session is lost.
"""

from __future__ import annotations

import json
import os
import select
import struct
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psycopg

from .connection import connect

INTERVAL = 2.0  # seconds
PURGE_EVERY = 150  # beats
LOST = 3  # exit status: the session is not current any more
_BEAT = """UPDATE session SET heartbeat_at = clock_timestamp(), lease_until = clock_timestamp() + lease_length(),
        tick_at = clock_timestamp() - %s * interval '1 second'
    WHERE id = %s AND state IN ('', 'starting', 'online')"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Whose heart this is. `tick` is an inherited descriptor of 8 bytes: the monotonic nanoseconds of the last tick."""

    dsn: str
    session: str
    parent: int
    parent_started: str
    tick: int


def process_state(pid: int) -> tuple[str, str]:
    """(state letter, start time in clock ticks) of a process; ("X", "") when there is none."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], words[19]
    except (FileNotFoundError, ProcessLookupError):
        return "X", ""


def may_renew(settings: Settings) -> bool:
    """Whether the parent runs: not stopped, not traced, not dead, and not another process with its number."""
    state, started = process_state(settings.parent)
    return state not in "TtZX" and started == settings.parent_started


def tick_age(settings: Settings) -> float:
    """Seconds since the engine's last tick."""
    tick: int = struct.unpack("<q", os.pread(settings.tick, 8, 0))[0]
    return max(0.0, (time.monotonic_ns() - tick) / 1e9)


def main() -> int:
    """Beat until there is nobody to beat for; returns the exit status."""
    settings = Settings(**json.loads(sys.stdin.readline()))
    connection: psycopg.Connection | None = None
    said, beats = "", 0
    while True:
        try:
            connection = connection or connect(settings.dsn, "cuzk heartbeat")
            if may_renew(settings) and not beat(connection, settings):
                return LOST
            if beats % PURGE_EVERY == 0:
                connection.execute("SELECT purge()")
            beats += 1
        except psycopg.Error as error:
            if type(error).__name__ != said:  # once an outage
                said = type(error).__name__
                print(f"heartbeat: {error}", file=sys.stderr, flush=True)
            if connection is not None:
                connection.close()
            connection = None
        if select.select([sys.stdin], [], [], INTERVAL)[0]:  # only its end can come
            return 0


def beat(connection: psycopg.Connection, settings: Settings) -> bool:
    """Renew the lease and look for others' that ran out; False when the session is not current any more."""
    renewed = connection.execute(_BEAT, [tick_age(settings), settings.session]).rowcount == 1
    connection.execute("SELECT mark_lost()")
    return renewed


if __name__ == "__main__":
    sys.exit(main())

"""How many transitions a second the journal writes, durably: whole attempts, with their rows kept up to date.

The peer is the same server without our bookkeeping: COPY of the same number of bare rows, one synchronous commit for as
many rows as our batches had. The ratio says what rows, fold, fence and NOTIFY cost.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psycopg

from prover.journal.session import open_session
from prover.journal.spool import Spool
from prover.journal.writer import Writer
from prover.stack.passwords import password
from prover.stack.postgres import EmbeddedPostgres
from prover.stack.roles import DAEMON, DATABASE, OWNER, SITE, make_database, make_roles
from prover.states import Attempt, Entity, Transition, attempt_id

SECONDS = 10.0
QUEUE = 20_000  # records in flight: what a prover would never reach
STEPS = (
    Attempt.PENDING, Attempt.RESERVED, Attempt.SYNTHESIZING, Attempt.READY, Attempt.CLAIMED, Attempt.DEVICE_WAIT,
    Attempt.DEVICE, Attempt.FINALIZING, Attempt.DONE,
)  # fmt: skip


def transitions(session: str, job: str) -> Iterator[Transition]:
    """Partitions of one job, each attempt from its beginning to its end, on eight workers in turn."""
    seq = 0
    for partition in range(10**9):
        old = ""
        for state in STEPS:
            seq += 1
            yield Transition(
                session, seq, time.time_ns() // 1000, time.monotonic_ns(), Entity.ATTEMPT,
                attempt_id(job, partition, 1), old, state, job, partition, 1,
                f"bench/{partition % 8 // 2}/{partition % 2}" if seq % 9 > 4 else None,
                detail={"bytes": 1 << 20} if state is Attempt.RESERVED else {},
            )  # fmt: skip
            old = state


def submit(url: str) -> str:
    """A job to hang the attempts on."""
    with psycopg.connect(url, autocommit=True) as web:
        row = web.execute(
            "SELECT job::text FROM submit_job(%s, 'x', 'window-post', 2048, 0, 3, NULL, 1, NULL, 0, 1, 'bench', 'x')",
            [str(uuid.uuid4())],
        ).fetchone()
    assert row is not None
    return str(row[0])


def ours(server: EmbeddedPostgres, folder: Path) -> tuple[float, float, float]:
    """(transitions a second, CPU seconds of this process a second, transitions in a commit)."""
    url = server.url(DAEMON, DATABASE)
    with psycopg.connect(url, autocommit=True) as connection:
        session = open_session(connection, f"bench-{uuid.uuid4()}", "bench")
        connection.execute("UPDATE session SET lease_until = now() + interval '1 hour' WHERE id = %s", [session])
    writer = Writer(url, session, Spool(folder, session))
    writer.start()
    job = submit(server.url(SITE, DATABASE))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE job SET session_id = %s WHERE id = %s", [session, job])
    source = transitions(session, job)
    cpu, started, count = resource.getrusage(resource.RUSAGE_SELF), time.monotonic(), 0
    while time.monotonic() - started < SECONDS:
        if writer.waiting > QUEUE:
            time.sleep(0.002)
            continue
        for _ in range(200):
            writer.put(next(source))
        count += 200
    writer.flush(60)
    seconds = time.monotonic() - started
    used = resource.getrusage(resource.RUSAGE_SELF)
    writer.close()
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*), max(seq), count(DISTINCT xmin::text) FROM transition WHERE session_id = %s", [session]
        ).fetchone()
    assert row is not None and row[:2] == (count, count), "transitions were lost"
    return count / seconds, (used.ru_utime - cpu.ru_utime) / seconds, count / row[2]


def bare(server: EmbeddedPostgres, batch: int) -> float:
    """Rows a second by COPY alone, into a table like ours."""
    with server.connect(OWNER, DATABASE) as owner:
        owner.execute("CREATE TABLE bare (LIKE transition INCLUDING ALL)")
        source, started, count = transitions(str(uuid.uuid4()), str(uuid.uuid4())), time.monotonic(), 0
        from prover.journal.batch import _COPY, _copy_row

        while time.monotonic() - started < SECONDS:
            with owner.transaction(), owner.cursor().copy(_COPY.replace("COPY transition", "COPY bare")) as copy:
                copy.write("".join(_copy_row(next(source)) for _ in range(batch)))
            count += batch
        return count / (time.monotonic() - started)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o711)
        with EmbeddedPostgres(Path(folder)) as server:
            with server.connect() as connection:
                make_roles(connection, lambda role: password(server.secrets, role))
                make_database(connection)
            env = os.environ | {"DATABASE_URL": server.url(OWNER, DATABASE), "CUZK_SECRET_KEY": "bench"}
            subprocess.run([sys.executable, "manage.py", "migrate", "--verbosity", "0"], env=env, check=True)
            rate, cpu, batch = ours(server, Path(folder) / "spool")
            peer = bare(server, max(1, round(batch)))
    print(f"journal: {rate:,.0f} transitions/s durable, {batch:.0f} a commit, {cpu:.2f} of a core in the prover")
    print(f"journal: bare COPY {peer:,.0f} rows/s; ours / bare = {rate / peer:.2f}")


if __name__ == "__main__":
    main()

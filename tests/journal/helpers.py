"""Sessions, trackers and jobs for the journal's tests, over a real database."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg

from prover.journal.journal import Journal
from prover.pipeline.allocator import DeviceInfo, allocate
from prover.pipeline.clock import Clock
from prover.pipeline.sources import ClaimedJob, EngineCommand
from prover.pipeline.tracker import Sink, StatusTracker
from prover.stack.roles import DAEMON, OWNER, SITE
from prover.states import Command, Entity, FleetState, Transition, View, fold
from tests.postgres import Database

PROOF = bytes(range(192))


class Control:
    """What the engine would hear; answers commands as done."""

    def __init__(self, tracker: StatusTracker) -> None:
        self.tracker = tracker
        self.woken = 0
        self.commands: list[EngineCommand] = []
        self.results: list[tuple[str, int, bytes]] = []
        self.lost: list[str] = []

    def wake(self) -> None:
        self.woken += 1

    def command(self, command: EngineCommand) -> None:
        self.commands.append(command)
        self.tracker.command(command, Command.TAKEN)
        self.tracker.command(command, Command.DONE, "as you wish")

    def result_arrived(self, job: str, partition: int, proof: bytes) -> None:
        self.results.append((job, partition, proof))

    def session_lost(self, reason: str) -> None:
        self.lost.append(reason)


class Prover:
    """A session with a tracker and a journal, but no engine: the tests make its moves."""

    def __init__(
        self, database: Database, folder: Path, name: str = "prover-a", devices: int = 1, sinks: Sequence[Sink] = ()
    ) -> None:
        self.clock = Clock()
        self.folder = folder
        self.journal = Journal.open(database.url(DAEMON), name, folder, version="test", clock=self.clock)
        self.tracker = StatusTracker(self.journal.session, name, self.clock, [self.journal.sink, *sinks])
        self.control = Control(self.tracker)
        self.tracker.session_starting({"prover": name, "host": "here", "version": "test"})
        infos = [DeviceInfo(name, n, f"device {n}", "cpu", 1 << 30) for n in range(devices)]
        self.workers = [slot.id for slot in allocate(infos, 2)]
        self.tracker.register_workers(infos, allocate(infos, 2))
        for worker in self.workers:
            self.tracker.worker_online(worker)
        self.tracker.session_online()
        assert self.journal.flush()
        self.journal.start(self.control)

    @property
    def session(self) -> str:
        return self.journal.session

    def take(self, limit: int = 1) -> list[ClaimedJob]:
        """Claim jobs and make them known to the tracker, as the engine does."""
        claimed = list(self.journal.claim(limit))
        for job in claimed:
            assert self.tracker.register_job(job.info, job.attempts)
        return claimed

    def prove(self, job: ClaimedJob, worker: str | None = None, end: bool = True) -> None:
        """All moves of a job that succeeds."""
        info, tracker = job.info, self.tracker
        assert tracker.job_loading(info.id)
        assert tracker.job_running(info.id)
        for partition in range(info.partitions):
            if partition not in job.proofs:
                self.prove_partition(info.id, partition, worker or self.workers[0])
        assert tracker.job_assembling(info.id)
        assert tracker.job_verifying(info.id)
        self.journal.put_delivery(info.id, PROOF * info.partitions)
        assert not end or tracker.job_completed(info.id, detail={"timings": {"total_ms": 5}, "local_keys": True})

    def prove_partition(self, job: str, partition: int, worker: str) -> None:
        tracker = self.tracker
        key = tracker.new_attempt(job, partition)
        assert key is not None
        assert tracker.reserved(key, {"bytes": 7})
        assert tracker.partition_synth_start(key)
        assert tracker.partition_synth_end(key)
        assert tracker.partition_gpu_start(key, worker)
        assert tracker.device_wait(key)
        assert tracker.device_start(key)
        assert tracker.handoff(key)
        self.journal.put_proof(job, partition, key.number, PROOF)
        assert tracker.partition_gpu_end(key)

    def close(self) -> None:
        self.journal.close()


@contextmanager
def running(database: Database, folder: Path, name: str = "prover-a", devices: int = 1) -> Iterator[Prover]:
    prover = Prover(database, folder, name, devices)
    try:
        yield prover
    finally:
        prover.close()


def submit(
    connection: psycopg.Connection, request_id: str | None = None, content: bytes = b"request", partitions: int = 1,
    kind: str = "window-post", priority: int = 3, deadline: str | None = None,
    partition_index: int = 0,
) -> Any:  # fmt: skip
    """Submit as the web does; returns (outcome, job, number, state, digest)."""
    row = connection.execute(
        "SELECT outcome, job::text, number, state, digest FROM"
        " submit_job(%s, %s, %s, 2048, 4, %s, %s, 1000, 7, %s, %s, 'alice', %s)",
        [request_id or f"r-{uuid.uuid4()}", hashlib.sha256(content).digest(), kind, priority, deadline,
         partition_index, partitions, content],
    ).fetchone()  # fmt: skip
    return row


def submit_one(database: Database, **more: Any) -> str:
    with database.connect(SITE) as web:
        return str(submit(web, **more)[1])


def watched(owner: psycopg.Connection) -> None:
    """As if database and observers had been there for a whole lease."""
    owner.execute(
        "UPDATE session SET heartbeat_at = now(), lease_until = now() - interval '1 second' WHERE prover = 'site'"
    )


def await_grown_up(database: Database) -> None:
    """Until the server is older than a lease: before, nobody is marked lost."""
    query = "SELECT now() > pg_postmaster_start_time() + interval '12.5 seconds'"
    with database.server.connect() as connection:
        eventually(lambda: connection.execute(query).fetchone() == (True,))


def log_of(connection: psycopg.Connection) -> list[Transition]:
    """All transitions, in an order that respects each session's."""
    rows = connection.execute(
        "SELECT session_id::text, seq, to_us(at), mono_ns, entity, entity_id, old, new, job::text, partition,"
        " attempt_no, worker, reason, detail FROM transition ORDER BY at, session_id, seq"
    )
    return [Transition.from_row(row) for row in rows]


def tables(connection: psycopg.Connection) -> dict[Entity, dict[str, View]]:
    """The state tables, as views."""
    result: dict[Entity, dict[str, View]] = {entity: {} for entity in Entity}
    for entity, key, *fields in connection.execute(
        "SELECT entity, id, state, times, detail, reason, session::text, seq, job::text, partition, attempt_no, worker"
        " FROM mirror"
    ):
        result[Entity(entity)][key] = View(*fields)
    return result


def assert_fold_equals_tables(database: Database) -> FleetState:
    """I17: the fold of the log is what the state tables hold; sequences are dense; counters count each end once."""
    with database.connect(OWNER) as owner:
        state = fold(log_of(owner))
        stored = tables(owner)
        for entity in Entity:
            assert stored[entity] == {k: with_worker(entity, k, v) for k, v in state.views[entity].items()}, entity
        gaps = owner.execute(
            "SELECT session_id, count(*), min(seq), max(seq) FROM transition GROUP BY 1 HAVING count(*) <> max(seq)"
        ).fetchall()
        assert gaps == []
        heads = dict(owner.execute("SELECT id::text, head_seq FROM session WHERE head_seq > 0").fetchall())
        assert heads == state.heads
        counters = {f"{kind} {end}": n for kind, end, n in owner.execute("SELECT kind, state, count FROM counter")}
        assert counters == state.ended
    return state


def with_worker(entity: Entity, key: str, view: View) -> View:
    """The table names a worker in its own row; its first transition need not."""
    return replace(view, worker=key) if entity in (Entity.WORKER, Entity.ADMIN) else view


def eventually(question: Callable[[], Any], within_s: float = 20.0) -> Any:
    """The first true answer."""
    deadline = time.monotonic() + within_s
    while not (answer := question()):
        assert time.monotonic() < deadline, "did not come true"
        time.sleep(0.05)
    return answer

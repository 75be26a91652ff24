"""Random lives of two provers over a real database: whatever happens, the tables are the fold of the log (I17).

Jobs are submitted, claimed, proved, failed, cancelled, given back; connections are cut; sessions are declared lost
while they go on, and are followed by new ones. Moves are asked for whether they are legal or not: the tracker decides.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from prover.pipeline.attempts import AttemptKey
from prover.pipeline.sources import ClaimedJob
from prover.stack.roles import OWNER, SITE
from prover.states import Admin
from tests.journal.helpers import PROOF, Prover, assert_fold_equals_tables, submit
from tests.postgres import Database

pytestmark = pytest.mark.postgres
STEPS = 250


class World:
    """Two provers, what they hold, and what may happen next."""

    def __init__(self, database: Database, folder: Path, seed: int) -> None:
        self.database, self.folder = database, folder
        self.random = random.Random(seed)
        self.lives = self.steps = 0
        self.provers = [self.birth("a"), self.birth("b")]
        self.jobs: dict[Prover, list[ClaimedJob]] = {prover: [] for prover in self.provers}
        self.attempts: dict[Prover, list[AttemptKey]] = {prover: [] for prover in self.provers}

    def birth(self, name: str) -> Prover:
        self.lives += 1
        return Prover(self.database, self.folder / str(self.lives), f"{name}{self.lives}")

    def step(self) -> None:
        self.steps += 1
        actions: list[tuple[int, Callable[[Prover], object]]] = [
            (3, self.submit), (4, self.claim), (8, self.begin), (40, self.advance), (2, self.fail), (1, self.cancel),
            (1, self.give_back), (6, self.finish), (2, self.wish), (1, self.cut), (1, self.lose),
        ]  # fmt: skip
        (action,) = self.random.choices([a for _, a in actions], [weight for weight, _ in actions])
        action(self.random.choice(self.provers))

    def submit(self, _prover: Prover) -> None:
        with self.database.connect(SITE) as web:
            submit(web, partitions=self.random.randint(1, 3), kind=self.random.choice(["window-post", "winning-post"]))

    def claim(self, prover: Prover) -> None:
        for job in prover.take(2):
            self.jobs[prover].append(job)
            prover.tracker.job_loading(job.info.id)
            prover.tracker.job_running(job.info.id)

    def begin(self, prover: Prover) -> None:
        for job in self.random.choices(self.jobs[prover], k=1) if self.jobs[prover] else ():
            key = prover.tracker.new_attempt(job.info.id, self.random.randrange(job.info.partitions))
            self.attempts[prover] += [key] if key else []

    def advance(self, prover: Prover) -> None:
        if not self.attempts[prover]:
            return
        key, tracker = self.random.choice(self.attempts[prover]), prover.tracker
        moves: list[Callable[[], object]] = [
            lambda: tracker.reserved(key, {"bytes": 3}), lambda: tracker.partition_synth_start(key),
            lambda: tracker.partition_synth_end(key), lambda: tracker.device_wait(key),
            lambda: tracker.partition_gpu_start(key, self.random.choice(prover.workers)),
            lambda: tracker.device_start(key), lambda: tracker.handoff(key), lambda: tracker.finishing(key),
            lambda: self.end(prover, key),
        ]  # fmt: skip
        self.random.shuffle(moves)
        any(move() for move in moves[:5])  # until one is accepted

    def end(self, prover: Prover, key: AttemptKey) -> bool:
        done = prover.tracker.partition_gpu_end(key)
        if done:
            prover.journal.put_proof(key.job, key.partition, key.number, PROOF)
        return done

    def fail(self, prover: Prover) -> None:
        if self.attempts[prover]:
            prover.tracker.partition_failed(self.random.choice(self.attempts[prover]), ValueError("no"))

    def finish(self, prover: Prover) -> None:
        for job in self.jobs[prover]:
            if prover.tracker.job_assembling(job.info.id):
                prover.tracker.job_verifying(job.info.id)
                prover.journal.put_delivery(job.info.id, PROOF)
                prover.tracker.job_completed(job.info.id)

    def cancel(self, prover: Prover) -> None:
        if self.jobs[prover]:
            prover.tracker.job_cancelled(self.random.choice(self.jobs[prover]).info.id, by="bob")

    def give_back(self, prover: Prover) -> None:
        if self.jobs[prover]:
            prover.tracker.job_released(self.random.choice(self.jobs[prover]).info.id, "draining")

    def wish(self, prover: Prover) -> None:
        prover.tracker.set_admin(self.random.choice(prover.workers), self.random.choice(list(Admin)), by="bob")

    def cut(self, _prover: Prover) -> None:
        with self.database.server.connect() as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^cuzk '")

    def lose(self, prover: Prover) -> None:
        """Declared lost while it works on; it does not hear of it at once, and another life begins beside it."""
        if self.lives < 5 and self.steps > STEPS // 3:
            with self.database.connect(OWNER) as owner:
                owner.execute("SELECT supersede_session(%s)", [prover.session])
            other = self.birth("c")
            self.provers.append(other)
            self.jobs[other], self.attempts[other] = [], []


@pytest.mark.parametrize("seed", range(4))
def test_tables_are_the_fold_of_the_log(database: Database, tmp_path: Path, seed: int) -> None:
    world = World(database, tmp_path, seed)
    try:
        for prover in world.provers:
            world.submit(prover)
            world.claim(prover)
        for _ in range(STEPS):
            world.step()
        assert all(prover.journal.flush(30) for prover in world.provers)
        state = assert_fold_equals_tables(database)
        assert sum(state.heads.values()) > 60
    finally:
        for prover in world.provers:
            prover.close()
    with database.connect(OWNER) as owner:
        ended = owner.execute("SELECT count(*) FROM job WHERE ended_at IS NOT NULL").fetchone()
        assert ended == (sum(state.ended.values()),)
        assert owner.execute("SELECT count(*) FROM anomaly WHERE code = 'row_rejected'").fetchone() == (0,)
        done = owner.execute("SELECT count(*) FROM job WHERE state = 'done'").fetchone()
        assert owner.execute("SELECT count(*) FROM delivery").fetchone() == done
        assert owner.execute(
            "SELECT count(*) FROM job j WHERE partitions_done <> (SELECT count(*) FROM proof p WHERE p.job_id = j.id)"
        ).fetchone() == (0,)

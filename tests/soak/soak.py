"""A soak: provers on one database, jobs of mixed kinds and priorities, and random faults; then the books are checked.

Engine, journal and database are the real ones; only the arithmetic is not there (`ControlledKind`: a partition's mark
stands for its proof). Everything random comes from one seed.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import psycopg

from prover.errors import InvalidRequest
from prover.journal.journal import Journal
from prover.pipeline.allocator import DeviceInfo
from prover.pipeline.clock import Clock
from prover.pipeline.devices import Device
from prover.pipeline.engine import Engine, EngineOptions
from prover.pipeline.kinds import DeviceFailed, ProofRefused
from prover.pipeline.tracker import StatusTracker
from prover.stack.roles import DAEMON, OWNER, SITE
from tests.journal.helpers import assert_fold_equals_tables, eventually, submit
from tests.pipeline.controlled import ControlledKind, Part, mark
from tests.postgres import Database

KINDS = ("winning-post", "window-post", "porep-c2", "snap-update")
OPTIONS = EngineOptions(workers_per_device=2, synthesis_threads=2, backoff_s=0.02)


class RoughKind(ControlledKind):
    """Steps fail now and then, for good or not, and stall for some milliseconds."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self._dice = dice

    def _step(self, step: str, part: Part) -> None:
        roll = self._dice.random()
        if step == "start" and roll < 0.02:
            raise DeviceFailed("of the soak")
        if step == "verify" and roll < 0.01:
            raise ProofRefused()
        if step == "synthesize" and roll < 0.01:
            raise InvalidRequest("of the soak")
        if roll > 0.97:
            time.sleep(self._dice.random() / 20)


class Life:
    """A session of a prover, from its start to its end or its loss."""

    def __init__(self, database: Database, folder: Path, name: str, dice: random.Random) -> None:
        self.name = name
        self.journal = Journal.open(database.url(DAEMON), name, folder, version="soak", clock=Clock())
        tracker = StatusTracker(self.journal.session, name, self.journal.clock, [self.journal.sink])
        kind = RoughKind(dice)
        devices = [Device(DeviceInfo(name, n), n) for n in range(2)]
        kinds = dict.fromkeys(KINDS, kind)
        self.engine = Engine(
            tracker, devices, kinds, self.journal, self.journal, OPTIONS, on_tick=self.journal.tick
        )  # fmt: skip
        self.engine.start({"prover": name})
        self.journal.start(self.engine)

    def end(self) -> None:
        """In order: what runs is finished, and all is said."""
        assert self.engine.drain(60)
        self.engine.stop()
        assert self.journal.close()

    def bury(self) -> None:
        """After its loss: what still runs is heard no more."""
        eventually(self.engine.lost.is_set)
        self.engine.leave()
        self.journal.close()


@dataclass
class Soak:
    """The run: `jobs` in all, a fault after every `every` of them."""

    database: Database
    folder: Path
    seed: int
    jobs: int
    every: int
    restarts: bool = False
    faults: Counter[str] = field(default_factory=Counter)
    rss: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.names = ["alpha", "beta"]
        self.lives = [self._birth(name) for name in self.names]
        self.submitted: list[str] = []

    def run(self) -> None:
        """Submit all, with faults; wait for the ends; stop; check the books."""
        while len(self.submitted) < self.jobs:
            self._submit(min(self.every, self.jobs - len(self.submitted)))
            self._fault()
            self._await_open(4 * self.every)
            self.rss.append(psutil.Process().memory_info().rss)
        self._await_open(0)
        for life in self.lives:
            life.end()
        self._check()

    def _birth(self, name: str) -> Life:
        return Life(self.database, self.folder / name, name, random.Random(self.dice.random()))

    def _submit(self, count: int) -> None:
        with self.database.connect(SITE) as web:
            for _ in range(count):
                partitions = self.dice.choice([1, 1, 1, 2, 5])
                content = json.dumps({"job": f"j{len(self.submitted)}", "partitions": partitions}).encode()
                kind, priority = self.dice.choice(KINDS), self.dice.randint(1, 4)
                made = submit(web, content=content, partitions=partitions, kind=kind, priority=priority)
                self.submitted.append(made[1])

    def _fault(self) -> None:
        fault = self.dice.choice(["lose", "cancel", "cut", "nothing", *(["restart"] if self.restarts else [])])
        self.faults[fault] += 1
        getattr(self, f"_{fault}")()

    def _nothing(self) -> None:
        pass

    def _cancel(self) -> None:
        with self.database.connect(SITE) as web:
            for job in self.dice.sample(self.submitted, min(5, len(self.submitted))):
                web.execute("SELECT cancel_job(%s, NULL, 'olga')", [job])

    def _cut(self) -> None:
        with self.database.server.connect() as admin:
            admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name ~ '^cuzk '")

    def _restart(self) -> None:
        self.database.server.kill()
        self.database.server.start()

    def _lose(self) -> None:
        """The session of one prover ends in the database while it works on; then it lives again."""
        number = self.dice.randrange(len(self.lives))
        life = self.lives[number]
        with self.database.connect(OWNER) as owner:
            eventually(lambda: self._superseded(owner, life))
        life.bury()
        self.lives[number] = self._birth(life.name)

    def _superseded(self, owner: psycopg.Connection, life: Life) -> bool:
        """False when somebody has its rows in hand."""
        return owner.execute("SELECT supersede_session(%s)", [life.journal.session]).fetchone() == (True,)

    def _await_open(self, most: int) -> None:
        """Until at most so many jobs are open."""

        def few() -> bool:
            with self.database.connect(SITE) as web:
                return web.execute("SELECT count(*) FROM job WHERE ended_at IS NULL").fetchone()[0] <= most  # type: ignore[index]

        eventually(few, 120)

    def _check(self) -> None:
        state = assert_fold_equals_tables(self.database)
        assert sum(state.ended.values()) == self.jobs, "each job ended once, and was counted once"
        assert set(state.gauges().values()) == {0}
        with self.database.connect(OWNER) as owner:
            ends = owner.execute(
                "SELECT job::text, count(*) FROM transition WHERE entity = 'job'"
                " AND new IN ('done', 'failed', 'cancelled')"
                " GROUP BY 1"
            ).fetchall()
            assert dict(ends) == dict.fromkeys(self.submitted, 1)
            done = owner.execute(
                "SELECT i.request, d.proof FROM job j JOIN job_input i ON i.job_id = j.id"
                " LEFT JOIN delivery d ON d.job_id = j.id WHERE j.state = 'done'"
            ).fetchall()
        for request, proof in done:
            value = json.loads(bytes(request))
            assert bytes(proof) == b"".join(mark(Part(value["job"], n)) for n in range(value["partitions"]))
        assert len(done) > self.jobs / 2, state.ended

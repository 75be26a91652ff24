"""The real tracker under any sequence of calls, sensible or not, with crashes; the pure fold is the oracle."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from prover.errors import InternalError
from prover.pipeline.allocator import DeviceInfo, allocate
from prover.pipeline.attempts import AttemptKey
from prover.pipeline.clock import Clock
from prover.pipeline.sources import EngineCommand, JobInfo, PriorAttempt
from prover.pipeline.tracker import StatusTracker
from prover.states import (
    ATTEMPT_ENDS,
    FRONT,
    JOB_ENDS,
    JOB_LEASED,
    Activity,
    Admin,
    Attempt,
    Command,
    Entity,
    FleetState,
    Job,
    Lifecycle,
    Move,
    Refused,
    Transition,
    apply,
    decide,
    fold,
)
from tests.states.traces import derived

DEVICES = [DeviceInfo("p", 0), DeviceInfo("p", 1)]
SLOTS = allocate(DEVICES, 2)
WORKERS = [slot.id for slot in SLOTS]
SITE = "site"
STEPS = [
    "reserved", "partition_synth_start", "partition_synth_end", "device_wait", "device_start", "handoff", "finishing",
    "partition_gpu_end",
]  # fmt: skip
numbers = st.integers(0, 2**16)


class TrackerMachine(RuleBasedStateMachine):
    """`world` folds what was said by all sessions; it is what the database would hold, and refuses the dead."""

    jobs = Bundle("jobs")

    def __init__(self) -> None:
        super().__init__()
        self.world = FleetState()
        self.log: list[Transition] = []
        self.refused: list[Refused] = []
        self.keys: list[AttemptKey] = []
        self.accepted: set[str] = set()
        self.sessions = self.site_seq = 0
        self.clock = Clock()
        self.dead: StatusTracker | None = None
        self.tracker = self._session()

    def _session(self) -> StatusTracker:
        self.sessions += 1
        tracker = StatusTracker(f"session{self.sessions}", "p", self.clock, [self._sink])
        tracker.session_starting({"prover": "p"})
        tracker.register_workers(DEVICES, SLOTS)
        for worker in WORKERS:
            admin = self.world.admin(worker)
            if admin != Admin.ENABLED:
                tracker.recall_admin(worker, Admin(admin), self.world.get(Entity.ADMIN, worker).since_us)
            tracker.worker_online(worker)
        tracker.session_online()
        return tracker

    def _sink(self, said: Transition | Refused) -> None:
        if isinstance(said, Refused):
            self.refused.append(said)
            return
        assert said.seq == self.world.heads.get(said.session, 0) + 1, "dense"
        if self.log:
            assert said.at_us > self.log[-1].at_us
        self._tell(said)

    def _tell(self, t: Transition) -> None:
        self.log.append(t)
        apply(self.world, t)

    def _site(self, entity: Entity, name: str, new: str, **more: Any) -> None:
        self.site_seq += 1
        move = Move(SITE, entity, name, new, **more)
        made = decide(self.world, move, seq=self.site_seq, at_us=self.clock.now_us(), mono_ns=0)
        assert isinstance(made, Transition), made
        self._tell(made)

    def _key(self, number: int) -> AttemptKey:
        """One of the attempts that there are, mostly a late one; or one that never was."""
        known = self.keys[-8:] if number % 4 else self.keys
        return known[number % len(known)] if known else AttemptKey("nobody", 0, 1)

    # -- what happens -----------------------------------------------------------------------------------------------

    @rule(target=jobs, partitions=st.integers(1, 6))
    def submit(self, partitions: int) -> str:
        if len(self.accepted) > 3:
            return "job0"
        job = f"job{len(self.accepted)}"
        self.accepted.add(job)
        detail = JobInfo(job, "window-post", partitions).detail()
        self._site(Entity.JOB, job, Job.QUEUED, job=job, detail=detail)
        self._take(job)
        return job

    @rule(job=jobs)
    def take_again(self, job: str) -> None:
        self._take(job)

    def _take(self, job: str) -> None:
        """What claim and load do: only a queued job is leased."""
        view = self.world.get(Entity.JOB, job)
        if view.state != Job.QUEUED:
            return
        prior = {v.partition: PriorAttempt(v.attempt_no, v.state) for _, v in self.world.attempts(job)}  # type: ignore
        info = JobInfo(job, "window-post", view.detail["partitions"], queued_at_us=view.since_us)
        self.tracker.register_job(info, prior)
        assert self.tracker.job_loading(job) and self.tracker.job_running(job)
        for partition in range(info.partitions):
            self._attempt(job, partition)

    @rule(job=jobs, partition=st.integers(0, 2))
    def retry(self, job: str, partition: int) -> None:
        """A new attempt; refused while one is open, when it was done, or when the job is not running."""
        if partition < self.world.get(Entity.JOB, job).detail["partitions"]:
            self._attempt(job, partition)

    def _attempt(self, job: str, partition: int) -> None:
        before = self.world.copy()
        key = self.tracker.new_attempt(job, partition)
        if key is None:
            assert before == self.world
        else:
            assert not any(v.partition == partition and v.state not in ATTEMPT_ENDS for _, v in before.attempts(job))
            self.keys.append(key)

    @rule(number=numbers, step=st.sampled_from(STEPS))
    def step(self, number: int, step: str) -> None:
        """Any call, whether its time has come or not: early and late, once and twice."""
        key = self._key(number)
        before, refused = self.world.get(Entity.ATTEMPT, key.id).state, len(self.refused)
        accepted = getattr(self.tracker, step)(key)
        after = self.world.get(Entity.ATTEMPT, key.id).state
        if before in ATTEMPT_ENDS:
            assert after == before and not accepted
        if len(self.refused) > refused:
            assert after == before and not accepted

    @rule(several=st.lists(numbers, min_size=10, max_size=40))
    def go_on(self, several: list[int]) -> None:
        """Attempts go on, now this one and now that one."""
        for number in several:
            self._go_on(number)

    def _go_on(self, number: int) -> None:
        """The step that is next for an attempt."""
        key = self._key(number)
        view = self.world.get(Entity.ATTEMPT, key.id)
        calls = {
            Attempt.PENDING: "reserved", Attempt.RESERVED: "partition_synth_start", Attempt.DEVICE_WAIT: "device_start",
            Attempt.SYNTHESIZING: "partition_synth_end", Attempt.CLAIMED: "device_wait", Attempt.DEVICE: "handoff",
            Attempt.FINALIZING: "partition_gpu_end", Attempt.FINISHING: "partition_gpu_end",
        }  # fmt: skip
        if view.state == Attempt.READY and view.worker is None:
            self.claim(number, number // 8)
        elif view.state in calls:
            getattr(self.tracker, calls[Attempt(view.state)])(key)

    @rule(number=numbers, worker=numbers)
    def claim(self, number: int, worker: int) -> None:
        name = WORKERS[worker % len(WORKERS)]
        ready = [key for key in self.keys if self.world.get(Entity.ATTEMPT, key.id).state == Attempt.READY]
        key = ready[number % len(ready)] if ready and number % 5 else self._key(number)
        before = self.world.copy()
        if self.tracker.partition_gpu_start(key, name):
            assert before.front(name) is None and before.admin(name) == Admin.ENABLED
            assert self.world.front(name) == key.id

    @rule(number=numbers, worker=numbers)
    def claim_unsynthesised(self, number: int, worker: int) -> None:
        self.tracker.claim_unsynthesised(self._key(number), WORKERS[worker % len(WORKERS)])

    @rule(number=numbers)
    def fail(self, number: int) -> None:
        self.tracker.partition_failed(self._key(number), InternalError("as the test wants"))

    @rule(number=numbers)
    def skip(self, number: int) -> None:
        self.tracker.partition_skipped(self._key(number), "result_arrived")

    @rule(job=jobs, how=st.sampled_from(["fail", "cancel", "deliver", "release"]), chance=st.integers(0, 3))
    def end_job(self, job: str, how: str, chance: int) -> None:
        if how == "deliver":
            if self.tracker.all_proven(job) and self.tracker.job_assembling(job):
                assert self.tracker.job_verifying(job) and self.tracker.job_completed(job)
        elif chance == 0:
            {
                "fail": lambda: self.tracker.job_completed(job, InternalError("broken")),
                "cancel": lambda: self.tracker.job_cancelled(job, by="olga"),
                "release": lambda: self.tracker.job_released(job, "draining"),
            }[how]()

    @rule(worker=st.sampled_from(WORKERS), admin=st.sampled_from([Admin.PAUSED, Admin.DRAINING, Admin.ENABLED]))
    def wish(self, worker: str, admin: Admin) -> None:
        self.tracker.set_admin(worker, admin, by="olga")

    @rule(worker=st.sampled_from(WORKERS))
    def worker_dies(self, worker: str) -> None:
        front = self.world.front(worker)
        self.tracker.worker_lost(worker, InternalError("died"))
        for key in self.keys:
            if key.id == front:
                self.tracker.partition_failed(key, InternalError("died"))
        assert self.tracker.worker_online(worker, 2)

    @rule(name=st.sampled_from(["one", "two"]))
    def command(self, name: str) -> None:
        for state in (Command.TAKEN, Command.DONE):
            self.tracker.command(EngineCommand(name, "pause", WORKERS[0], at_us=1), state, "done")

    @rule(chance=st.integers(0, 7))
    def session_is_lost(self, chance: int) -> None:
        """The lease runs out: the site marks everything, and a new session begins."""
        if chance:
            return
        dead = self.tracker
        self._site(Entity.SESSION, dead.session, Lifecycle.LOST)
        for worker in WORKERS:
            self._site(Entity.WORKER, worker, Lifecycle.LOST, worker=worker)
        for name, view in list(self.world.views[Entity.ATTEMPT].items()):
            if view.state not in ATTEMPT_ENDS:
                self._site(Entity.ATTEMPT, name, Attempt.LOST, job=view.job, partition=view.partition)
        for job, view in list(self.world.views[Entity.JOB].items()):
            if view.state in JOB_LEASED:
                self._site(Entity.JOB, job, Job.QUEUED, job=job)
        for device in DEVICES:
            self._site(Entity.DEVICE, device.id, Lifecycle.LOST)
        self.tracker, self.dead = self._session(), dead

    @rule(number=numbers)
    def a_dead_session_speaks(self, number: int) -> None:
        """Its late moves are refused by who knows that it is dead."""
        if self.dead is not None:
            key = self._key(number)
            move = Move(self.dead.session, Entity.ATTEMPT, key.id, Attempt.DONE, key.job, key.partition, key.number)
            assert isinstance(decide(self.world, move, seq=10**6, at_us=10**18, mono_ns=1), Refused)

    # -- what always holds ------------------------------------------------------------------------------------------

    @invariant()
    def the_tracker_holds_what_was_said(self) -> None:
        mine = self.tracker.snapshot()
        for entity in (Entity.WORKER, Entity.ATTEMPT, Entity.JOB):
            for name, view in mine.views[entity].items():
                assert view.state == self.world.get(entity, name).state
        for worker in WORKERS:
            assert mine.activity(worker) == self.world.activity(worker)

    @invariant()
    def workers_and_devices_do_one_thing_at_a_time(self) -> None:
        attempts = self.world.views[Entity.ATTEMPT]
        fronts = Counter(v.worker for v in attempts.values() if v.worker and v.state in FRONT)
        computing = Counter(v.worker.rpartition("/")[0] for v in attempts.values() if v.worker and v.state == "device")
        assert not fronts or max(fronts.values()) == 1
        assert not computing or max(computing.values()) == 1
        for worker in WORKERS:
            assert (self.world.activity(worker) == Activity.PROVING) == (fronts[worker] == 1)
        cells = Counter((v.job, v.partition) for v in attempts.values() if v.state not in ATTEMPT_ENDS)
        assert not cells or max(cells.values()) == 1

    @invariant()
    def jobs_are_counted_once(self) -> None:
        jobs = self.world.views[Entity.JOB]
        ended = Counter(f"window-post {v.state}" for v in jobs.values() if v.state in JOB_ENDS)
        assert dict(ended) == self.world.ended and set(jobs) == self.accepted
        for job, view in jobs.items():
            if view.state in JOB_ENDS:
                waiting = (Attempt.PENDING, Attempt.RESERVED)
                assert not any(v.state in waiting and v.worker is None for _, v in self.world.attempts(job))

    @invariant()
    def times_follow_the_order_of_states(self) -> None:
        for view in self.world.views[Entity.ATTEMPT].values():
            times = [view.times[s] for s in ("pending", "reserved", "synthesizing", "ready") if s in view.times]
            assert times == sorted(times)
            assert view.times[view.state] == max(view.times.values())

    def teardown(self) -> None:
        """The log gives the same state when it is replayed, and when each session's part arrives at another time."""
        assert fold(self.log) == self.world
        by_session: dict[str, list[Transition]] = {}
        for t in self.log:
            by_session.setdefault(t.session, []).append(t)
        for order in (sorted(by_session), sorted(by_session, reverse=True)):
            late = fold(t for session in order for t in (*by_session[session], *by_session[session][-3:]))
            assert derived(late) == derived(self.world) and late.ended == self.world.ended


class Prepared(TrackerMachine):
    """Starts with work under way, so that short runs reach late states."""

    @initialize(target=TrackerMachine.jobs)
    def prepared(self) -> str:
        job = self.submit(6)
        for number in range(30):
            self._go_on(number)
        return job


TestTracker = Prepared.TestCase
TestTracker.settings = settings(deadline=None, max_examples=50, stateful_step_count=50)

"""The engine: claims jobs, and runs the threads that prove them, by the pipeline or the monolithic loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import structlog

from ..errors import CuzkError
from ..states import Admin, Entity, FleetState, JsonObject, Lifecycle, Target
from .admission import Admission
from .allocator import WorkerSlot, allocate
from .availability import Availability
from .budget import UNLIMITED, MemoryBudget
from .commands import Commands, Executor
from .crew import Crew
from .devices import Device
from .finalizer import TAILS_PER_WORKER, FinalizerPool
from .holdings import Holdings
from .job_commands import JobCommands
from .jobs import JobBook
from .key_commands import KeyCommands
from .keys import KeyManager
from .kinds import AnyKind
from .monolithic import MonolithicWorker
from .pool import Pool
from .quarantine import Quarantine
from .queues import Slots
from .retry import MAX_RETRIES, PROBE_EVERY_S, QUARANTINE_AFTER, RetryPolicy
from .sources import ClaimedJob, EngineCommand, JobSource, ResultStore
from .supervision import SupervisedThread
from .synthesis import SynthesisPool
from .tracker import StatusTracker, takes_work
from .turns import Turns
from .worker_commands import WorkerCommands
from .workers import PipelineWorker, Worker

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 1.0  # for jobs, when nobody says that there are some; the engine's tick too
CLAIM_LIMIT_S = 10.0  # a claim's one round trip to the database ends sooner, one way or the other
NONE_LEFT = "no_worker_left"  # why jobs go back to the queue: all devices are lost, or all workers quarantined
LOADERS = 4  # jobs that are parsed and checked at a time: one that is large, or whose key is being made, delays none


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine proves."""

    pipeline: bool = True  # False: the monolithic loop
    split: bool = True  # False: workers compute their own tails
    workers_per_device: int = 2  # 1 in the monolithic loop
    synthesis_threads: int = 1
    max_retries: int = MAX_RETRIES
    backoff_s: float = 1.0  # 0: what is made again is made at once
    quarantine_after: int = QUARANTINE_AFTER
    probe_every_s: float = PROBE_EVERY_S
    max_ready: int = 0  # partitions synthesised ahead of the devices; 0: as many as workers and synthesis threads
    ageing_s: float = 3600.0  # without a turn before a priority gets one; 0: nobody ages
    cancel_missed: bool = False  # jobs past their deadlines are cancelled

    @property
    def per_device(self) -> int:
        """The workers that a device gets."""
        return self.workers_per_device if self.pipeline else 1


@dataclass(frozen=True, slots=True)
class Wish:
    """What people wanted of a worker in earlier sessions."""

    admin: Admin
    at_us: int


class Engine:
    """One session's work. Devices, kinds and what they hold may outlive it; everything else is its own."""

    def __init__(
        self, tracker: StatusTracker, devices: Sequence[Device], kinds: Mapping[str, AnyKind], source: JobSource,
        results: ResultStore, options: EngineOptions | None = None, *, on_tick: Callable[[], None] = lambda: None,
        holdings: Holdings | None = None, keys: KeyManager | None = None, budget: MemoryBudget | None = None,
    ) -> None:  # fmt: skip
        self.tracker = tracker
        self.options = options or EngineOptions()
        self.lost = threading.Event()  # the session is no longer ours
        self._devices = {device.info.id: device for device in devices}
        self._source = source
        self._on_tick = on_tick
        self._worker_slots = allocate([device.info for device in devices], self.options.per_device)
        self._lookahead = self.options.max_ready or len(self._worker_slots) + self.options.synthesis_threads
        self._turns = Turns(self.options.ageing_s)
        self._places = Slots(self._lookahead)
        self._loaders = Pool(LOADERS, "loader")
        self._holdings = holdings or Holdings()
        self.book = JobBook(
            tracker, kinds, results, self._places, self._holdings, self.wake, self._loaders.submit,
            RetryPolicy(self.options.max_retries, self.options.backoff_s),
            Quarantine(tracker, self.options.quarantine_after),
        )  # fmt: skip
        self._availability = Availability(
            tracker, self._devices, self._worker_slots, self._recheck, every_s=self.options.probe_every_s
        )
        self._keys = keys
        budget = budget or (keys.budget if keys is not None else MemoryBudget(UNLIMITED))
        self._admission = Admission(tracker, budget, self.book.pending.recheck)
        self._holdings.listen(self.wake)
        self._crew = Crew(tracker)
        self._finalizers = FinalizerPool(self.book, TAILS_PER_WORKER * max(1, len(self._worker_slots)))
        self._synthesis = SynthesisPool(
            self.book, self._places, self._admission, self.options.synthesis_threads
        )  # fmt: skip
        self._workers = [self._worker(slot) for slot in self._worker_slots]
        self._commands = self._executors()
        self._claims = SupervisedThread("engine", self._loop, lambda error: None)
        self._woken = threading.Event()
        self._claiming = threading.Lock()
        self._accepting = True
        self._running = True

    def _worker(self, slot: WorkerSlot) -> Worker:
        device = self._devices[slot.device.id]
        if not self.options.pipeline:
            return MonolithicWorker(slot, device, self.book, self._availability, self._admission)
        return PipelineWorker(
            slot, device, self.book, self._availability, self._places, self._crew, self._finalizers,
            split=self.options.split,
        )  # fmt: skip

    def _executors(self) -> Commands:
        of_workers = WorkerCommands(self.tracker, {w.slot.id: w.restart for w in self._workers}, self._recheck)
        of_jobs = JobCommands(self.tracker, self.book)
        executors: dict[Target, Executor] = {Target.WORKER: of_workers, Target.JOB: of_jobs}
        if self._keys is not None:
            executors[Target.KEY] = KeyCommands(self.tracker, self._keys)
        return Commands(self.tracker, executors, of_jobs.knows)

    # -- life -------------------------------------------------------------------------------------------------------

    def start(self, session: JsonObject, wishes: Mapping[str, Wish] | None = None) -> None:
        """Register everything and begin. `session` is the detail of the session's first transition."""
        self.tracker.session_starting({**session, "pipeline": self.options.pipeline, "split": self.options.split})
        for worker, wish in (wishes or {}).items():
            self.tracker.recall_admin(worker, wish.admin, wish.at_us)
        self.tracker.register_workers([device.info for device in self._devices.values()], self._worker_slots)
        self._availability.begin()
        self._holdings.use(self.tracker)
        for each in self._workers:
            each.supervised.start()
        if self.options.pipeline:
            self._synthesis.start()
        self.tracker.session_online()
        self._claims.start()

    def drain(self, timeout: float | None = None) -> bool:
        """Claim nothing more, give back what nobody works on, finish the rest; whether that was done in time."""
        with self._claiming:
            self._accepting = False
        self.book.release("draining", started=False)
        return self.book.wait_until_empty(timeout)

    def stop(self, reason: str = "stopped") -> None:
        """End in order, after `drain`: wait for what runs, then say that all is stopped."""
        self._close()
        self._claims.join()
        for worker in self._workers:
            worker.supervised.join()
        if self.options.pipeline:
            self._synthesis.join()
        self._finalizers.stop()
        self._loaders.finish()
        self._say_stopped(reason)

    def abort(self, reason: str = "aborted") -> None:
        """End now: what is open is given back; threads that compute are left behind and heard no more."""
        self._close()
        self._claims.join(CLAIM_LIMIT_S)
        self.book.release(reason, started=True)
        self._finalizers.abandon()
        self._loaders.abandon()
        self._say_stopped(reason)

    def _close(self) -> None:
        self._accepting = self._running = False
        self._claims.stop()
        self.wake()
        self._synthesis.stop()
        self.book.later.close()
        self.book.ready.close()
        for worker in self._workers:
            worker.close()

    def _say_stopped(self, reason: str) -> None:
        for worker in self._workers:
            self.tracker.worker_stopped(worker.slot.id, reason)
        for device in self._devices:
            self.tracker.device_stopped(device, reason)
        self.tracker.session_stopped(reason)
        self.tracker.freeze()

    # -- what the journal calls -------------------------------------------------------------------------------------

    def wake(self) -> None:
        """There may be something to claim."""
        self._woken.set()

    def command(self, command: EngineCommand) -> None:
        """Execute a command once and answer it."""
        self._commands.execute(command)

    def result_arrived(self, job: str, partition: int, proof: bytes) -> None:
        """A proof of a partition came from elsewhere; one that does not verify is logged and left alone."""
        try:
            self.book.result_arrived(job, partition, proof)
        except CuzkError as error:
            log.error("foreign proof refused", job=job, partition=partition, error=str(error))

    def session_lost(self, reason: str) -> None:
        """The lease is gone. Nothing more is said in this session's name; proofs that still come are kept as facts."""
        log.error("session lost", session=self.tracker.session, reason=reason)
        self.tracker.freeze()
        self._close()
        self._loaders.abandon()
        self.lost.set()

    def leave(self) -> None:
        """After `session_lost`: wait until the engine's own loop has ended, and with it all that uses the journal.

        What is on a device runs out in threads that are left behind; its proofs go to the result store.
        """
        self._claims.join(CLAIM_LIMIT_S)

    # -- claims -----------------------------------------------------------------------------------------------------

    def _loop(self, _epoch: int) -> None:
        while self._running:
            self._woken.clear()
            self._on_tick()
            self._admission.look()
            self.book.look_for_keys()
            self._look_at_devices()
            self.book.look_at_deadlines(self.tracker.clock.read_us(), cancel=self.options.cancel_missed)
            with self._claiming:
                if self._accepting:
                    self._claim()
            self._woken.wait(LOOK_EVERY_S)

    def _claim(self) -> None:
        """Claim what can start soon: as many jobs as workers lack partitions, or one more urgent than all that wait."""
        able = self.tracker.read(self._able)
        room = able - self.book.unstarted()
        best = self.book.pending.best()
        claimed = []
        if room > 0:
            claimed = list(self._source.claim(room))
        elif able > 0 and best is not None:
            claimed = list(self._source.claim(1, min_priority=1 - best.urgency))
        self._admit(claimed)
        if able > 0 and (priority := self._turns.due()) is not None:
            self._give_turn(priority)
        self.tracker.set_queue_depth(self._source.depth())

    def _give_turn(self, priority: int) -> None:
        """The oldest job that waits, here or in the queue, counts as high from now on."""
        before_us = self.tracker.clock.read_us() - int(self._turns.interval_s * 1e6)
        oldest = self.book.oldest_waiting(priority, before_us)
        if oldest is None:
            claimed = list(self._source.claim_oldest(priority, self._turns.interval_s))
            self._admit([replace(job, info=replace(job.info, aged=True)) for job in claimed])
        else:
            self.book.age(oldest.id)
            self._turns.had(oldest.priority)

    def _admit(self, claimed: Sequence[ClaimedJob]) -> None:
        for job in claimed:
            self._turns.had(job.info.priority)
            run = self.book.admit(job)
            self._commands.admitted(job.info.id)
            if run is not None:
                self._loaders.submit(partial(self.book.load, run))

    def _look_at_devices(self) -> None:
        """What is lost is probed; with no worker left, what waits goes back to the queue, for others or for later."""
        self._availability.look()
        none_left: bool = self.tracker.read(self._none_left)
        if none_left:
            self.book.release_waiting(NONE_LEFT)

    def _none_left(self, state: FleetState) -> bool:
        """Whether every worker is quarantined, or its device lost; what people paused, they take up again."""
        return bool(self._worker_slots) and all(
            state.admin(worker.id) == Admin.QUARANTINED
            or state.get(Entity.DEVICE, worker.device.id).state == Lifecycle.LOST
            for worker in self._worker_slots
        )

    def _able(self, state: FleetState) -> int:
        """How many workers take work, now or once they are done with what they do."""
        return sum(takes_work(state, worker.id) for worker in self._worker_slots)

    def _recheck(self) -> None:
        self.book.recheck()
        self.wake()

"""The jobs that this session holds, from claim to end: loading, attempts, retries, assembly, delivery."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import structlog

from ..errors import CuzkError, InvalidRequest, UnsupportedProof
from ..states import Attempt, Holding, JsonObject
from .admission import AttemptMemory
from .assembler import Assembler
from .attempts import AttemptKey, Order, order
from .kinds import AnyKind, KeyAwaited, Report
from .later import Later
from .quarantine import Quarantine
from .queues import PriorityQueue, Slots
from .retry import MAX_RETRIES, Made, RetryPolicy, rule_of, suits
from .sources import ClaimedJob, JobInfo, ResultStore
from .tracker import StatusTracker

log = structlog.get_logger(__name__)

#: why an attempt is skipped when the proof of its partition came from an earlier one
RESULT_ARRIVED = "result_arrived"
#: attempts at one partition in all sessions: more, and the job is taken to be at fault, whatever each ended with
MAX_ATTEMPTS = 12
#: jobs that may wait for a key that is being made without standing before new ones
MAX_AWAITING = 16


class RetriesExhausted(CuzkError):
    """The job was given up after its automatic retries."""

    code = "retries_exhausted"


@dataclass(slots=True)
class JobRun:
    """A job while it is here. `lock` guards what follows it; no call that takes long is made with it."""

    claimed: ClaimedJob
    kind: AnyKind
    assembler: Assembler
    parse: Callable[[], Sequence[Any]]  # the request: the work of each partition
    lock: threading.RLock = field(default_factory=threading.RLock)
    awaited: KeyAwaited | None = None  # its key is being made: nobody works on it until that is done
    works: Sequence[Any] = ()
    loaded: bool = False
    started: bool = False  # somebody works, or has worked, on a partition
    missed: int | None = None  # the deadline that was noted as missed
    ended: bool = False  # decided here: done, failed, cancelled or given up
    made: dict[int, Made] = field(default_factory=dict)  # partition -> what was made again
    failed_on: dict[int, frozenset[str]] = field(default_factory=dict)  # partition -> workers that it shall avoid
    current: dict[int, AttemptKey] = field(default_factory=dict)  # partition -> its newest attempt
    early: dict[int, bytes] = field(default_factory=dict)  # partition -> its proof that came while the job was loaded

    @property
    def info(self) -> JobInfo:
        """What is known from the submission."""
        return self.claimed.info


@dataclass(slots=True)
class Task:
    """An attempt on its way through the queues; `synthesized` is there from ready until the device has worked."""

    run: JobRun
    key: AttemptKey
    avoid: frozenset[str] = frozenset()  # workers on which it failed, as long as others take work
    synthesized: Any = None
    pending: Any = None  # what the device left for the tail
    memory: AttemptMemory | None = None  # from its reservation to its end
    awaited: KeyAwaited | None = None  # its key was evicted: it waits until that is here again
    refused: CuzkError | None = None  # why it will never have memory

    def close(self) -> None:
        """It has ended, or goes back to where it waits for memory."""
        memory, self.memory = self.memory, None
        if memory is not None:
            memory.close()

    @property
    def order(self) -> Order:
        """Its place in every queue, as of now."""
        return order(self.run.info, self.key.partition)

    @property
    def work(self) -> Any:
        """The partition's input."""
        return self.run.works[self.key.partition]

    @property
    def result_arrived(self) -> bool:
        """Whether the partition has a proof already, from elsewhere."""
        return self.run.assembler.has(self.key.partition)


class JobBook:
    """All jobs of the session. Each method may be called from any thread."""

    def __init__(
        self, tracker: StatusTracker, kinds: Mapping[str, AnyKind], results: ResultStore, slots: Slots,
        report: Report, changed: Callable[[], None] = lambda: None,
        defer: Callable[[Callable[[], None]], object] = lambda call: call(),
        policy: RetryPolicy | None = None, quarantine: Quarantine | None = None,
    ) -> None:  # fmt: skip
        self.tracker = tracker
        self.report = report  # of keys and programs that kinds load and compile
        self.pending: PriorityQueue[Task] = PriorityQueue()
        self.ready: PriorityQueue[Task] = PriorityQueue()
        self._kinds = kinds
        self._results = results
        self._slots = slots
        self._changed = changed
        self._defer = defer  # runs a call that may take long elsewhere
        self._policy = policy or RetryPolicy()
        self.quarantine = quarantine or Quarantine(tracker)
        self.later = Later()
        self._runs: dict[str, JobRun] = {}
        self._ended = threading.Condition()
        self._shown: dict[str, str] = {}  # keys that are said to be awaited, and what is said
        self._parked: list[Task] = []  # their keys are not here

    # -- in ---------------------------------------------------------------------------------------------------------

    def admit(self, claimed: ClaimedJob) -> JobRun | None:
        """Register a claimed job; the caller then has it loaded. None when it cannot be tried (it has failed then)."""
        info = claimed.info
        self.tracker.register_job(info, claimed.attempts)
        if not self.tracker.job_loading(info.id):
            return None
        kind = self._kinds.get(info.kind)
        if kind is None:
            self.tracker.job_completed(
                info.id, UnsupportedProof(f"no such kind of proof here: {info.kind!r}", field="kind")
            )
            return None
        exhausted = _exhausted(claimed)
        if exhausted is not None:
            self.tracker.job_completed(info.id, RetriesExhausted(exhausted))
            return None
        run = JobRun(claimed, kind, Assembler(info.partitions), partial(kind.load, claimed.request))
        with self._ended:
            self._runs[info.id] = run
        return run

    def load(self, run: JobRun) -> None:
        """Parse and check the request, then queue an attempt for each partition that has no proof."""
        if run.ended:  # cancelled, or given back, before a loader had time for it
            return
        try:
            self._load(run)
        except KeyAwaited as awaited:
            log.info("job waits for its key", job=run.info.id, request_id=run.info.request_id, reason=str(awaited))
            self._await(run, awaited)
            return
        except BaseException as error:  # nobody looks at what a loader's thread raises
            self._fail(run, error)
            return
        self._deliver_if_complete(run)

    def _await(self, run: JobRun, awaited: KeyAwaited) -> None:
        try:
            awaited.begin(order(run.info), self.report)
        except Exception as error:
            self._fail(run, error)
            return
        with run.lock:
            run.awaited = awaited
            ended = run.ended
        if ended:
            awaited.leave()
        self._show_awaited()

    def park(self, task: Task, awaited: KeyAwaited) -> None:
        """An attempt whose key was evicted waits apart, until the key is here again: the next one goes on."""
        try:
            awaited.begin(task.order, self.report)
        except Exception as error:
            self._fail(task.run, error)
            return
        with self._ended:
            self._parked.append(task)

    def refuse(self, task: Task, error: CuzkError) -> None:
        """An attempt that can never have the memory that it needs ends its job."""
        self._fail(task.run, error)

    def look_for_keys(self) -> None:
        """Have those jobs and attempts go on whose keys are here, or not being made any more. To be called now and
        then."""
        self._unpark()
        with self._ended:
            awaiting = [(run, run.awaited) for run in self._runs.values() if run.awaited is not None]
        for run, awaited in awaiting:
            if not awaited.still():
                run.awaited = None
                self._defer(partial(self._load_further, run, awaited))
        self._show_awaited()

    def _unpark(self) -> None:
        with self._ended:
            parked, self._parked = self._parked, []
        for task in parked:
            if task.run.ended and task.awaited is not None:
                task.awaited.leave()
            elif task.awaited is not None and task.awaited.still():
                with self._ended:
                    self._parked.append(task)
            else:
                self._queue_again(task)

    def _queue_again(self, task: Task) -> None:
        awaited, task.awaited = task.awaited, None
        try:
            if awaited is not None:
                awaited.then()
        except Exception as error:
            self._fail(task.run, error)
            return
        self.pending.put(task.order, task)

    def _show_awaited(self) -> None:
        """The keys that jobs wait for are seen as holdings of this session, as long as jobs do."""
        with self._ended:
            awaited = [run.awaited for run in self._runs.values()] + [task.awaited for task in self._parked]
            wanted = {each.name: each.what for each in awaited if each is not None}
            for name, what in wanted.items():
                if self._shown.get(name) != what:
                    self.tracker.holding(f"key:{name}@awaited", Holding.LOADING, {"name": what})
            for name in self._shown.keys() - wanted.keys():
                self.tracker.holding(f"key:{name}@awaited", Holding.EVICTED, {})
            self._shown = wanted

    def _load_further(self, run: JobRun, awaited: KeyAwaited) -> None:
        run.parse = awaited.then
        self.load(run)

    def _load(self, run: JobRun) -> None:
        works = run.parse()
        if len(works) != run.info.partitions:
            raise InvalidRequest(f"the request has {len(works)} partitions, its job {run.info.partitions}")
        local_keys = run.kind.has_local_keys(works[0])
        with run.lock:
            if run.ended:
                return
            run.works, run.loaded = works, True
            self.tracker.job_running(run.info.id, {"local_keys": local_keys})
            for partition in range(run.info.partitions):
                self._begin(run, partition)

    def _begin(self, run: JobRun, partition: int) -> None:
        proof = run.claimed.proofs.get(partition, run.early.get(partition))
        prior = run.claimed.attempts.get(partition)
        if proof is not None:
            run.assembler.insert(partition, proof)
            if prior is None or prior.state != Attempt.DONE:
                self._skip_new(run, partition)
        else:
            self._queue(run, partition)

    def _skip_new(self, run: JobRun, partition: int) -> None:
        """Show a partition as settled whose proof came late, after its attempt had been declared lost."""
        key = self.tracker.new_attempt(run.info.id, partition)
        if key is not None:
            self.tracker.partition_skipped(key, RESULT_ARRIVED)

    def _queue(self, run: JobRun, partition: int, pause_s: float = 0.0, after: str | None = None) -> None:
        """Make an attempt, and have it taken in `pause_s` seconds; `after` is the code of what failed before it."""
        detail = {}
        if after is not None:
            detail = {"after": after, "retry_at_us": self.tracker.clock.read_us() + int(pause_s * 1e6)}
        key = self.tracker.new_attempt(run.info.id, partition, detail)
        if key is not None:
            run.current[partition] = key
            task = Task(run, key, run.failed_on.get(partition, frozenset()))
            self.later.call(pause_s, partial(self._put, task))

    def _put(self, task: Task) -> None:
        with task.run.lock:  # it may have ended while it waited
            if not task.run.ended and self.tracker.is_open(task.key):
                self.pending.put(task.order, task)

    # -- results ----------------------------------------------------------------------------------------------------

    def proved(self, task: Task, proof: bytes) -> None:
        """A verified proof of a partition: a fact, kept even when its job failed; not when it was cancelled."""
        run, partition = task.run, task.key.partition
        with run.lock:
            if task.result_arrived:
                self.tracker.partition_skipped(task.key, RESULT_ARRIVED)
            else:
                if not self.tracker.is_cancelled(run.info.id):
                    self._results.put_proof(run.info.id, partition, task.key.number, proof)
                self.tracker.partition_gpu_end(task.key)
                run.assembler.insert(partition, proof)
        self.quarantine.proved(self.tracker.worker_of(task.key))
        self._deliver_if_complete(run)

    def failed(self, task: Task, error: BaseException) -> None:
        """An attempt failed: another one is made when that may help, else the job fails."""
        run, partition = task.run, task.key.partition
        unknown = None if isinstance(error, CuzkError) else error  # then the log needs its traceback
        log.warning("attempt failed", attempt=task.key.id, error=str(error), exc_info=unknown)
        with run.lock:
            if task.result_arrived:
                self.tracker.partition_skipped(task.key, RESULT_ARRIVED)
            else:
                self.tracker.partition_failed(task.key, error)
                self._blame(task, error)
                if not run.ended and not self._retry(run, partition, error):
                    self._fail(run, error)
        if not run.ended:  # the caller may hold a device
            self._defer(lambda: self._deliver_if_complete(run))

    def _blame(self, task: Task, error: BaseException) -> None:
        """What failed on a worker counts against it; and may be to be made again on another."""
        worker, rule, partition = self.tracker.worker_of(task.key), rule_of(error), task.key.partition
        if worker is not None and rule is not None and rule.elsewhere:
            task.run.failed_on[partition] = task.run.failed_on.get(partition, frozenset()) | {worker}
        if self.quarantine.failed(worker, task.run.info.id, error):
            self._defer(self.recheck)  # those that it kept from a task may take it now

    def _retry(self, run: JobRun, partition: int, error: BaseException) -> bool:
        made, rule = run.made.get(partition, Made()), rule_of(error)
        pause_s = self._policy.pause_s(error, made)
        if pause_s is None or rule is None:
            return False
        run.made[partition] = made.and_again(rule)
        self._queue(run, partition, pause_s, getattr(error, "code", None))
        return True

    def suits(self, task: Task, worker: str) -> bool:
        """Whether no worker that takes work shall rather have the task than `worker`."""
        return not task.avoid or suits(worker, task.avoid, self.tracker.able())

    def recheck(self) -> None:
        """Who takes work has changed: all that wait for some ask again."""
        self.ready.recheck()
        self.pending.recheck()

    def result_arrived(self, job: str, partition: int, proof: bytes) -> None:
        """A proof of a partition came from elsewhere: verify it, then skip the attempt that is open."""
        run = self._runs.get(job)
        if run is None or run.assembler.has(partition):
            return
        with run.lock:
            if not run.loaded:
                run.early[partition] = proof
                return
        run.kind.verify(run.works[partition], proof)
        with run.lock:
            if run.ended:
                return
            run.assembler.insert(partition, proof)
            key = run.current.get(partition)
            if key is not None:
                self.tracker.skip_if_waiting(key, RESULT_ARRIVED)
        self._discard(run, lambda task: task.key == key)
        self._deliver_if_complete(run)

    # -- ends -------------------------------------------------------------------------------------------------------

    def cancel(self, job: str, *, by: str) -> bool:
        """Cancel a job: what waits ends at once, what runs runs out. False when it is not here (any more)."""
        run = self._runs.get(job)
        if run is None:
            return False
        with run.lock:
            if run.ended:
                return False
            run.ended = True
            self.tracker.job_cancelled(job, by=by)
        self._close(run)
        return True

    def hold(self, job: str, *, by: str) -> bool:
        """Give a job back to be held: what is on a device runs out and is dropped. False when it is not here."""
        run = self._runs.get(job)
        if run is None:
            return False
        with run.lock:
            if run.ended or not self.tracker.job_released(job, "held", by=by, held=True):
                return False
            run.ended = True
        self._close(run)
        return True

    def set_priority(self, job: str, priority: int, *, by: str) -> bool:
        """Give a job another priority (1 to 4), and its partitions another place in the queues."""
        return self._change(job, "priority", {"priority": priority, "by": by}, priority=priority)

    def set_deadline(self, job: str, deadline_us: int | None, *, by: str) -> bool:
        """Give a job another deadline, or none, and its partitions another place in the queues."""
        return self._change(job, "deadline", {"deadline_us": deadline_us, "by": by}, deadline_us=deadline_us)

    def age(self, job: str) -> None:
        """From now on it counts as high, the first of them."""
        run = self._runs.get(job)
        if run is not None:
            with run.lock:
                run.claimed = replace(run.claimed, info=replace(run.info, aged=True))
                self.pending.reorder(job, lambda task: task.order)

    def oldest_waiting(self, max_priority: int, submitted_before_us: int) -> JobInfo | None:
        """The oldest job of at most `max_priority` with partitions that wait for their synthesis, and not aged."""
        with self._ended:
            infos = [run.info for run in self._runs.values()]
        waiting = [
            info for info in infos
            if info.priority <= max_priority and not info.aged and self.pending.has(info.id)
            and (info.submitted_at_us or 0) < submitted_before_us
        ]  # fmt: skip
        return min(waiting, key=lambda info: info.number, default=None)

    def look_at_deadlines(self, now_us: int, *, cancel: bool) -> None:
        """Note those that are past their deadlines, once each; with `cancel` they are cancelled."""
        with self._ended:
            runs = list(self._runs.values())
        for run in runs:
            deadline_us = run.info.deadline_us
            if deadline_us is not None and deadline_us < now_us and run.missed != deadline_us:
                run.missed = deadline_us
                self.tracker.job_noted(run.info.id, "deadline_missed", {"missed_us": deadline_us})
                if cancel:
                    self.cancel(run.info.id, by="deadline")

    def _change(self, job: str, note: str, detail: JsonObject, **fields: Any) -> bool:
        run = self._runs.get(job)
        if run is None:
            return False
        with run.lock:
            if run.ended or not self.tracker.job_noted(job, note, detail):
                return False
            run.claimed = replace(run.claimed, info=replace(run.info, **fields))
            for queue in (self.pending, self.ready):
                queue.reorder(job, lambda task: task.order)
        return True

    def release(self, reason: str, *, started: bool) -> None:
        """Give jobs back to the queue: those nobody has worked on yet, and with `started` all others too."""
        for run in list(self._runs.values()):
            with run.lock:
                if run.ended or (run.started and not started):
                    continue
                run.ended = True
                self.tracker.job_released(run.info.id, reason)
            self._close(run)

    def release_waiting(self, reason: str) -> None:
        """Give back the jobs that nothing is being done for: nobody here can work on them."""
        for run in list(self._runs.values()):
            with run.lock:
                if run.ended or self.tracker.in_hand(run.info.id):
                    continue
                run.ended = True
                self.tracker.job_released(run.info.id, reason)
            self._close(run)

    def _fail(self, run: JobRun, error: BaseException) -> None:
        with run.lock:
            if run.ended:
                return
            run.ended = True
            log.warning("job failed", job=run.info.id, request_id=run.info.request_id, error=str(error))
            self.tracker.job_completed(run.info.id, error, self._timings(run))
        self._close(run)

    def _deliver_if_complete(self, run: JobRun) -> None:
        with run.lock:
            if run.ended or run.assembler.missing() or not self.tracker.all_proven(run.info.id):
                return
            proof = run.assembler.take()
            if proof is None:
                return
            self.tracker.job_assembling(run.info.id)
            self.tracker.job_verifying(run.info.id)
        self._deliver(run, proof)

    def _deliver(self, run: JobRun, proof: bytes) -> None:
        """Verify what is delivered once more, outside every lock; then it counts."""
        try:
            run.kind.verify_delivery(run.works, proof)
        except BaseException as error:
            self._fail(run, error)
            return
        with run.lock:
            if run.ended:
                return
            run.ended = True
            self._results.put_delivery(run.info.id, proof)
            self.tracker.job_completed(run.info.id, detail=self._timings(run))
        self._close(run)

    def _timings(self, run: JobRun) -> dict[str, Any]:
        return {"timings": self.tracker.timings(run.info.id)}

    def _close(self, run: JobRun) -> None:
        """Take an ended job out of the book and the queues."""
        self._discard(run)
        if run.awaited is not None:
            run.awaited.leave()
        with self._ended:
            self._runs.pop(run.info.id, None)
            self._ended.notify_all()
        self._show_awaited()
        self._changed()

    def _discard(self, run: JobRun, unwanted: Callable[[Task], bool] = lambda task: True) -> None:
        """Take a run's unwanted tasks out of the queues; not those of a later run of the same job."""

        def is_dropped(task: Task) -> bool:
            return task.run is run and unwanted(task)

        self.pending.drop(run.info.id, is_dropped)
        for task in self.ready.drop(run.info.id, is_dropped):
            task.close()
            self._slots.release()

    # -- reading ----------------------------------------------------------------------------------------------------

    def has(self, job: str) -> bool:
        """Whether the job is here."""
        with self._ended:
            return job in self._runs

    @property
    def held(self) -> int:
        """How many jobs are here."""
        with self._ended:
            return len(self._runs)

    def unstarted(self) -> int:
        """Partitions that wait for their synthesis, and jobs that are being loaded: what stands before a new job.

        Of the jobs that wait for keys only those beyond a bound.
        """
        with self._ended:
            loading = sum(not run.loaded and run.awaited is None for run in self._runs.values())
            awaiting = sum(run.awaited is not None for run in self._runs.values())
        return loading + max(0, awaiting - MAX_AWAITING) + len(self.pending)

    def wait_until_empty(self, timeout: float | None = None) -> bool:
        """Wait until no job is here; whether that came to be."""
        with self._ended:
            return self._ended.wait_for(lambda: not self._runs, timeout)


def _exhausted(claimed: ClaimedJob) -> str | None:
    """Why a job is not tried any more; None when it is."""
    if claimed.losses > MAX_RETRIES:
        return f"its prover was lost {claimed.losses} times"
    tried = max((attempt.number for attempt in claimed.attempts.values()), default=0)
    return f"a partition was tried {tried} times" if tried >= MAX_ATTEMPTS else None

"""GPU workers: the pipeline's loop, split or synchronous, and what the monolithic loop shares with it."""

from __future__ import annotations

import time
from typing import ClassVar

import structlog

from .allocator import WorkerSlot
from .availability import Availability
from .crew import Crew
from .devices import Device, Observation
from .finalizer import TAILS_PER_WORKER, FinalizerPool, finish
from .jobs import RESULT_ARRIVED, JobBook, Task
from .queues import Slots
from .supervision import SupervisedThread, ThreadDied

log = structlog.get_logger(__name__)


class Worker:
    """A supervised thread that takes attempts, one at a time, to its device. Admin wishes act between attempts only."""

    loop_name: ClassVar[str]

    def __init__(self, slot: WorkerSlot, device: Device, book: JobBook, availability: Availability) -> None:
        self.slot = slot
        self.device = device
        self.book = book
        self._availability = availability
        self.tracker = book.tracker
        self.supervised = SupervisedThread(f"W{slot.number}", self._loop, self._died)
        self._front: Task | None = None
        self._blamed = False  # its present death was counted with the attempt that it ended
        self._log = log.bind(worker_id=slot.number, gpu=device.ordinal, sub_id=slot.sub_id)

    def take(self) -> Task | None:
        """The next task, waiting for one; None when there will be no more."""
        raise NotImplementedError

    def prove(self, task: Task) -> bool:
        """Everything that this worker does for a task; whether it got something done."""
        raise NotImplementedError

    def suits(self, task: Task) -> bool:
        """Whether the task shall not rather go to another worker."""
        return self.book.suits(task, self.slot.id)

    def free(self) -> None:
        """Called when its front has ended, however it did."""

    def close(self) -> None:
        """Take nothing more."""
        self.supervised.stop()

    def restart(self) -> None:
        """Leave the thread for a new one, at once or when what it does is finished; its tails run on."""
        self.supervised.renew()
        self.book.recheck()

    def _loop(self, epoch: int) -> None:
        if self.device.lost is None and not self.tracker.worker_renewed(self.slot.id, epoch):
            self.tracker.worker_online(self.slot.id, epoch)
        self._log.info(f"{self.loop_name} GPU worker started", epoch=epoch)
        while (task := self.take()) is not None:
            self._front = task
            self._observe("worker_busy", task)
            try:
                if self.prove(task):
                    self.supervised.fared_well()
            finally:
                self._observe("worker_free", task)
                self.free()
            self._front = None

    def _died(self, error: BaseException) -> None:
        """Say so; the attempt fails, the worker comes back with a new epoch."""
        self.tracker.worker_lost(self.slot.id, error)
        task, self._front = self._front, None
        if task is not None:
            self.book.failed(task, ThreadDied.of(error))
            task.close()
        elif not self._blamed:
            self.book.quarantine.failed(self.slot.id, "", ThreadDied.of(error))
        self._blamed = False

    def compute(self, task: Task, *, split: bool) -> bool:
        """Key, device lock, device phase; whether the device's outputs are there. The task has ended otherwise."""
        try:
            task.run.kind.prepare(task.work, self.device, self.book.report)
            if not self.tracker.device_wait(task.key):
                return False
            with self.device.lock.hold(task.order, task.key.id):
                return self._on_device(task, split=split)
        except Exception as error:
            self._failed(task, error)
            return False

    def _on_device(self, task: Task, *, split: bool) -> bool:
        if task.result_arrived:
            self.tracker.partition_skipped(task.key, RESULT_ARRIVED)
            return False
        if self.device.lost is not None:  # while this one waited for it
            raise self.device.lost
        if not self.tracker.device_start(task.key):
            return False
        try:
            task.pending = task.run.kind.start(task.work, task.synthesized, self.device)
        except BaseException as error:
            # ended before the lock is free, so that two are never seen on one device
            self._front = None
            if isinstance(error, Exception):
                self._failed(task, error)
                return False
            self._blamed = True
            self.book.failed(task, ThreadDied.of(error))
            task.close()
            raise
        task.synthesized = None
        if task.memory is not None:
            task.memory.device_done()
        return self.tracker.handoff(task.key) if split else self.tracker.finishing(task.key)

    def _failed(self, task: Task, error: Exception) -> None:
        """The device may be gone: that is known before the task is taken again."""
        self._availability.heard(self.device, error)
        self.book.failed(task, error)

    def _observe(self, what: str, task: Task) -> None:
        if self.device.observer is not None:
            self.device.observer(Observation(time.monotonic_ns(), what, self.slot.id, task.key.id))


class PipelineWorker(Worker):
    """Takes what is synthesised. Split: hands the tail to the finalizers and goes on; else computes the tail itself."""

    loop_name = "pipeline"

    def __init__(
        self, slot: WorkerSlot, device: Device, book: JobBook, availability: Availability, slots: Slots, crew: Crew,
        finalizers: FinalizerPool, *, split: bool,
    ) -> None:  # fmt: skip
        super().__init__(slot, device, book, availability)
        self._crew = crew
        self._slots = slots
        self._finalizers = finalizers
        self._split = split
        self._tails = Slots(TAILS_PER_WORKER)

    def take(self) -> Task | None:
        """The most urgent synthesised task, once a tail may be added."""
        if not self._tails.wait():
            return None
        task = self.book.ready.get(self._may_take, lambda: self.supervised.renewing, self.suits)
        self._crew.leave(self.slot)
        self.book.ready.recheck()  # whoever gave way to this worker may take the next one
        return task

    def _may_take(self, task: Task) -> bool:
        return self._crew.may_take(self.slot, lambda other: self.book.suits(task, other))

    def free(self) -> None:
        """Its front has ended."""
        self._crew.done(self.slot)
        self.book.ready.recheck()

    def prove(self, task: Task) -> bool:
        """Claim, compute, then hand off or finish."""
        if not self.tracker.partition_gpu_start(task.key, self.slot.id):
            self._give_back(task)
            return False
        self._slots.release()
        self._log.info("GPU worker picked up synthesized proof", job_id=task.key.job, partition=task.key.partition)
        if not self.compute(task, split=self._split):
            task.close()
            return False
        if not self._split:
            return self._finish(task)
        self._tails.acquire()  # at once: `take` saw a free place, and only this worker takes them
        self._finalizers.submit(task, self._tails)
        return True

    def close(self) -> None:
        """Take nothing more."""
        super().close()
        self._tails.close()

    def _finish(self, task: Task) -> bool:
        try:
            return finish(self.book, task)
        finally:
            task.close()

    def _give_back(self, task: Task) -> None:
        """It ended before it could be claimed; or this worker may not claim any more and another shall."""
        if self.tracker.is_open(task.key):
            self.book.ready.put(task.order, task)
        else:
            task.close()
            self._slots.release()

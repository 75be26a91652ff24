"""The monolithic loop (`pipeline.enabled = false`): one worker a device does all of a partition in one go."""

from __future__ import annotations

from .admission import Admission
from .allocator import WorkerSlot
from .availability import Availability
from .devices import Device
from .finalizer import finish
from .jobs import JobBook, Task
from .synthesis import admitted
from .workers import Worker


class MonolithicWorker(Worker):
    """Claims before the synthesis, so it is seen busy throughout; reports by the same calls as the pipeline."""

    loop_name = "monolithic"

    def __init__(
        self, slot: WorkerSlot, device: Device, book: JobBook, availability: Availability, admission: Admission
    ) -> None:
        super().__init__(slot, device, book, availability)
        self._admission = admission

    def take(self) -> Task | None:
        """The most urgent pending task."""
        return self.book.pending.get(
            lambda task: self.tracker.may_claim(self.slot.id), lambda: self.supervised.renewing, self.suits,
            self._admission,
        )  # fmt: skip

    def prove(self, task: Task) -> bool:
        """Synthesis, device and tail."""
        try:
            return admitted(self.book, task) and self._prove(task)
        finally:
            task.close()

    def _prove(self, task: Task) -> bool:
        if not self.tracker.claim_unsynthesised(task.key, self.slot.id):
            if self.tracker.is_open(task.key):
                task.close()
                self.book.pending.put(task.order, task)
            return False
        task.run.started = True
        self._log.info("monolithic GPU worker picked up proof", job_id=task.key.job, partition=task.key.partition)
        return self._synthesize(task) and self.compute(task, split=False) and finish(self.book, task)

    def _synthesize(self, task: Task) -> bool:
        if not self.tracker.partition_synth_start(task.key):
            return False
        try:
            task.synthesized = task.run.kind.synthesize(task.work, self.book.report)
        except Exception as error:
            self.book.failed(task, error)
            return False
        return self.tracker.partition_synth_end(task.key)

"""The pool that synthesises: witness and a, b, c, most urgent first, a bounded number ahead of the devices."""

from __future__ import annotations

from .admission import Admission
from .attempts import CRITICAL
from .jobs import JobBook, Task
from .queues import Gate, Slots
from .supervision import SupervisedThread, ThreadDied


class SynthesisPool:
    """`threads` threads between the pending and the ready queue.

    A slot is taken before a task is, so that what is taken is the most urgent at that moment; it is given back when a
    GPU worker claims the attempt. Slots bound the memory of what is synthesised and not yet on a device.

    One more thread takes what is critical alone, and waits for no slot: neither the syntheses of others that run nor
    what is ready already stand before it.
    """

    def __init__(self, book: JobBook, slots: Slots, admission: Admission, threads: int) -> None:
        self._book = book
        self._slots = slots
        self._threads = [SynthesisThread(book, slots, admission, n) for n in range(threads)]
        self._threads.append(CriticalThread(book, slots, CriticalGate(admission.another()), threads))

    def start(self) -> None:
        """Run the threads."""
        for thread in self._threads:
            thread.supervised.start()

    def stop(self) -> None:
        """Take nothing more; what is being synthesised runs out."""
        for thread in self._threads:
            thread.supervised.stop()
        self._slots.close()
        self._book.pending.close()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for all threads."""
        return all(thread.supervised.join(timeout) for thread in self._threads)


class SynthesisThread:
    """One thread of the pool; when it dies its attempt fails and it comes back."""

    def __init__(self, book: JobBook, slots: Slots, admission: Gate[Task], number: int) -> None:
        self._book = book
        self._slots = slots
        self._admission = admission
        self._task: Task | None = None
        self.supervised = SupervisedThread(f"synthesis-{number}", self._loop, self._died)

    def _take(self) -> Task | None:
        """The next task, with a slot."""
        return self._book.pending.get(gate=self._admission) if self._slots.acquire() else None

    def _loop(self, _epoch: int) -> None:
        while True:
            self._task = self._take()
            if self._task is None:
                return
            if not (admitted(self._book, self._task) and synthesize(self._book, self._task)):
                self._task.close()
                self._slots.release()
            self._task = None

    def _died(self, error: BaseException) -> None:
        task, self._task = self._task, None
        if task is not None:
            self._book.failed(task, ThreadDied.of(error))
            task.close()
            self._slots.release()


class CriticalThread(SynthesisThread):
    """Takes what is critical alone, however many slots are taken."""

    def _take(self) -> Task | None:
        task = self._book.pending.get(gate=self._admission)
        if task is not None:
            self._slots.take()
        return task


class CriticalGate:
    """Passed by what is critical, when it is admitted."""

    def __init__(self, admission: Gate[Task]) -> None:
        self._admission = admission

    def admits(self, task: Task) -> bool:
        """Whether it may be taken now."""
        if task.order.urgency > -CRITICAL:
            self.nothing()
            return False
        return self._admission.admits(task)

    def nothing(self) -> None:
        """Nobody waits here."""
        self._admission.nothing()


def admitted(book: JobBook, task: Task) -> bool:
    """Whether an attempt that was taken has its key and its memory. Without its key it is parked; without any hope of
    memory its job fails."""
    if task.awaited is not None:
        book.park(task, task.awaited)
    elif task.refused is not None:
        book.refuse(task, task.refused)
    return task.memory is not None


def synthesize(book: JobBook, task: Task) -> bool:
    """Synthesise a pending task and queue it as ready; False when it ended instead."""
    tracker = book.tracker
    task.run.started = True
    reserved = {} if task.memory is None else {"bytes": task.memory.nbytes}
    if not (tracker.reserved(task.key, reserved) and tracker.partition_synth_start(task.key)):
        return False
    try:
        task.synthesized = task.run.kind.synthesize(task.work, book.report)
    except Exception as error:
        book.failed(task, error)
        return False
    if not tracker.partition_synth_end(task.key):
        return False
    book.ready.put(task.order, task)
    return True

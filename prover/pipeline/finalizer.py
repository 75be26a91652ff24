"""The tail of split proving: it runs beside the worker that handed it off, and touches nothing but its own attempt."""

from __future__ import annotations

from functools import partial

from .jobs import JobBook, Task
from .pool import Pool
from .queues import Slots
from .supervision import ThreadDied

TAILS_PER_WORKER = 2  # a worker claims nothing new while so many of its tails wait: their memory is bounded


def finish(book: JobBook, task: Task) -> bool:
    """Compute the tail, verify the proof, hand it over; whether it was proved."""
    try:
        proof = task.run.kind.finish(task.pending)
        task.run.kind.verify(task.work, proof)
    except Exception as error:
        book.failed(task, error)
        return False
    task.pending = None
    book.proved(task, proof)
    return True


class FinalizerPool:
    """Threads that finish what workers hand off, first in first out."""

    def __init__(self, book: JobBook, threads: int) -> None:
        self._book = book
        self._pool = Pool(threads, "finalizer")

    def submit(self, task: Task, tails: Slots) -> None:
        """Finish it in the background, then give its place among the worker's tails back."""
        self._pool.submit(partial(self._finish, task, tails))

    def stop(self) -> None:
        """Take nothing more and wait for what runs."""
        self._pool.finish()

    def abandon(self) -> None:
        """Take nothing more and wait for nothing."""
        self._pool.abandon()

    def _finish(self, task: Task, tails: Slots) -> None:
        try:
            finish(self._book, task)
        except BaseException as error:
            self._book.failed(task, ThreadDied.of(error))
        finally:
            task.close()
            tails.release()

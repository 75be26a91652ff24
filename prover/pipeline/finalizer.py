"""The tail of split proving: it runs beside the worker that handed it off, and touches nothing but its own attempt."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from .jobs import JobBook, Task
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
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="finalizer")

    def submit(self, task: Task, tails: Slots) -> None:
        """Finish it in the background, then give its place among the worker's tails back."""
        self._threads.submit(self._finish, task, tails)

    def stop(self) -> None:
        """Take nothing more and wait for what runs."""
        self._threads.shutdown(wait=True)

    def abandon(self) -> None:
        """Take nothing more and wait for nothing."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _finish(self, task: Task, tails: Slots) -> None:
        try:
            finish(self._book, task)
        except BaseException as error:
            self._book.failed(task, ThreadDied.of(error))
        finally:
            tails.release()

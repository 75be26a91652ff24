"""Threads that do not die silently."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from ..errors import CuzkError

log = structlog.get_logger(__name__)


class ThreadDied(CuzkError):
    """The thread that worked on this died."""

    code = "worker_died"
    retryable = True

    @classmethod
    def of(cls, error: BaseException) -> ThreadDied:
        """For the death that `error` caused."""
        died = cls(f"the thread that worked on this died: {type(error).__name__}: {error}")
        died.__cause__ = error
        return died


_PAUSE_S = (0.0, 0.1, 0.5, 2.0, 5.0)  # before the n-th restart in a row


class SupervisedThread:
    """Runs `body(epoch)` in a thread; when it dies, says so and runs the next epoch in a new thread, until stopped.

    So does a body that returns because it was asked to (`renewing`), and that is no death.
    """

    def __init__(self, name: str, body: Callable[[int], None], died: Callable[[BaseException], None]) -> None:
        self.name = name
        self._body = body
        self._died = died
        self._deaths = 0  # in a row
        self._stopping = threading.Event()
        self._renewing = threading.Event()
        self._ended = threading.Event()
        self.thread: threading.Thread | None = None  # of the present epoch

    def start(self) -> None:
        """Begin with epoch 1."""
        self._spawn(1)

    def stop(self) -> None:
        """Restart no more; it does not interrupt the body."""
        self._stopping.set()

    def renew(self) -> None:
        """Have the body leave its thread when it can, for the next epoch."""
        self._renewing.set()

    @property
    def renewing(self) -> bool:
        """Whether the body shall return, to be run again."""
        return self._renewing.is_set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the body to return for good; whether it did."""
        return self._ended.wait(timeout)

    def fared_well(self) -> None:
        """The body got something done: the next death is the first in a row."""
        self._deaths = 0

    @property
    def deaths(self) -> int:
        """Deaths in a row."""
        return self._deaths

    def _spawn(self, epoch: int) -> None:
        self.thread = threading.Thread(target=self._run, args=(epoch,), name=self.name, daemon=True)
        self.thread.start()

    def _run(self, epoch: int) -> None:
        self._renewing.clear()  # whatever was asked before: this is a new thread
        try:
            self._body(epoch)
            if self.renewing and not self._stopping.is_set():
                self._spawn(epoch + 1)
                return
        except BaseException as error:
            self._deaths += 1
            log.exception("thread died", thread=self.name, epoch=epoch, deaths=self._deaths)
            self._died(error)
            if not self._stopping.wait(_PAUSE_S[min(self._deaths, len(_PAUSE_S)) - 1]):
                self._spawn(epoch + 1)
                return
        self._ended.set()

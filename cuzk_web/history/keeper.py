"""What the history needs done beside the pages, by a thread of each web process: the checkpoints of replays, and sums.

All of it may be done by several processes, or by none for a while: nothing is lost, it is done later.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from django.db import Error, connection

from . import checkpoints, rollups

log = logging.getLogger(__name__)

EVERY_S: Final = 20.0
EVERYTHING: Final = 180  # rounds: as often, what is long past is looked at too
AT_ONCE: Final = 5  # checkpoints: half a second's work, which the pages of this process wait for in turns
FIRST_S: Final = 5.0  # after the start
END_S: Final = 3.0  # that a process waits for it at its end


class Keeper(threading.Thread):
    """Works until `stop`; a database in trouble is asked again the next time."""

    def __init__(self) -> None:
        super().__init__(name="history keeper", daemon=True)
        self._stop_asked = threading.Event()
        self._rounds = 0

    def run(self) -> None:
        """Every EVERY_S, look whether there is something to do."""
        wait = FIRST_S
        while not self._stop_asked.wait(wait):
            wait = EVERY_S
            try:
                self._work()
            except Error as error:
                log.warning("the history is not kept up to date: %s", str(error).strip())
            finally:
                connection.close()

    def stop(self) -> None:
        """Ask it to end, and wait a moment for it."""
        self._stop_asked.set()
        self.join(END_S)

    def _work(self) -> None:
        rollups.roll_up(every=self._rounds % EVERYTHING == 0)
        self._rounds += 1
        while True:
            began = time.monotonic()
            if not checkpoints.extend(AT_ONCE):
                return
            if self._stop_asked.wait(time.monotonic() - began):  # a long past is caught up on in half of the time
                return


@contextmanager
def keeping() -> Iterator[None]:
    """A keeper works in the block."""
    keeper = Keeper()
    keeper.start()
    try:
        yield
    finally:
        keeper.stop()

"""The threads of a web process that look at the rules and send the messages. They end with it, and outlive errors."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from django.db import connections

from .delivery import deliver
from .evaluation import EVERY_S, evaluate

log = logging.getLogger(__name__)

DELIVER_S: Final = 1.0
TROUBLE_S: Final = 5.0  # after an error
END_S: Final = 3.0  # that the threads get to end; a message that is under way is sent again by another process


@contextmanager
def watching(every_s: float = EVERY_S, deliver_s: float = DELIVER_S) -> Iterator[None]:
    """Look and send while the block runs."""
    ended = threading.Event()
    loops = {"alert rules": (evaluate, every_s), "alert messages": (deliver, deliver_s)}
    threads = [
        threading.Thread(target=_loop, args=(work, pause, ended), name=name, daemon=True)
        for name, (work, pause) in loops.items()
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(END_S)


def _loop(work: Callable[[], object], pause_s: float, ended: threading.Event) -> None:
    wait = pause_s
    while not ended.wait(wait):
        try:
            work()
            wait = pause_s
        except Exception as error:  # the next look is the retry, whatever it was
            log.warning("%s: %s: %s", threading.current_thread().name, type(error).__name__, str(error).strip())
            connections.close_all()
            wait = TROUBLE_S
    connections.close_all()

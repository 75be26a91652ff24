"""A link to a server that carries so many bytes a second, or none any more."""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PIECE = 8192  # bytes
BUFFER = 16384  # of the link itself: what is sent waits at the sender


class Link:
    """Connect to `port` on this machine; what is sent there arrives at `target`."""

    def __init__(self, target: tuple[str, int], rate: float) -> None:
        self.rate = rate  # bytes a second, towards the target
        self.back = math.inf  # and from there
        self.up = threading.Event()  # cleared: nothing moves
        self.up.set()
        self.carried = 0
        self._target = target
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen()
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.up.set()
        for one in (self._listener, *self._sockets):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket()
                far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
                far.connect(self._target)
                self._sockets += [near, far]
                threading.Thread(target=self._carry, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(far, near, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, there: bool) -> None:
        with suppress(OSError):
            while data := source.recv(PIECE):
                self.up.wait()
                time.sleep(len(data) / (self.rate if there else self.back))
                self.carried += len(data) if there else 0
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def slow_link(port: int, rate: float) -> Iterator[Link]:
    link = Link(("127.0.0.1", port), rate)
    try:
        yield link
    finally:
        link.close()

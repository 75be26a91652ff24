"""The prover's side of its heartbeat process: start it, feed it the engine's ticks, start it again when it dies."""

from __future__ import annotations

import json
import mmap
import os
import struct
import subprocess
import sys
import time

import structlog

from . import beat

log = structlog.get_logger(__name__)


class Heartbeat:
    """One heartbeat process for one session."""

    def __init__(self, dsn: str, session: str) -> None:
        """Starts nothing."""
        self._dsn, self._session = dsn, session
        self._descriptor = os.memfd_create("cuzk-tick")
        os.ftruncate(self._descriptor, 8)
        self._tick = mmap.mmap(self._descriptor, 8)
        self._process: subprocess.Popen[bytes] | None = None
        self.tick()

    def tick(self) -> None:
        """The engine's own loop runs. Costs less than a microsecond."""
        struct.pack_into("<q", self._tick, 0, time.monotonic_ns())

    def ensure(self) -> bool:
        """Start the process when it does not run; False when it ended because the session is lost."""
        if self._process is not None and self._process.poll() is not None:
            status = self._process.returncode
            self._reap()
            if status == beat.LOST:
                return False
            log.error("heartbeat process ended", status=status, session=self._session)
        if self._process is None:
            self._start()
        return True

    def stop(self) -> None:
        """End the process; the lease runs out, or the session's last transition says that it stopped."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # its sign to end
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
            self._reap()
        os.close(self._descriptor)  # the map stays as long as somebody may tick, and goes with this object

    @property
    def pid(self) -> int | None:
        """The heartbeat process."""
        return None if self._process is None else self._process.pid

    def _start(self) -> None:
        settings = {
            "dsn": self._dsn, "session": self._session, "parent": os.getpid(),
            "parent_started": beat.process_state(os.getpid())[1], "tick": self._descriptor,
        }  # fmt: skip
        self._process = subprocess.Popen(
            [sys.executable, "-m", "prover.journal.beat"], stdin=subprocess.PIPE, pass_fds=[self._descriptor],
            start_new_session=True,  # Ctrl-C is for the prover: while that drains, its heart beats on
        )  # fmt: skip
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(settings).encode() + b"\n")
        self._process.stdin.flush()

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            if self._process.stdin is not None:
                self._process.stdin.close()
        self._process = None

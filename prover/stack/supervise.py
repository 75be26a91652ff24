"""Services that run beside us: started, watched, started again when they end by themselves, stopped in order."""

from __future__ import annotations

import signal
import subprocess
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from .errors import StackFailed
from .processes import kill_group, spawn

MAX_DEATHS, WITHIN = 5, 60.0  # so many deaths in so many seconds, and it is not started again at once
TAIL = 15  # lines of the log in the message


class Service:
    """One command whose output goes to a file. Children end with the thread that started them: use it from one."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str],
        *,
        grace_s: float = 10.0,
        rest_s: float | None = None,
    ) -> None:
        """`grace_s`: how long it may take to end after SIGTERM.

        `rest_s`: how long one that keeps on ending is left alone before it is started again; None: it is given up.
        """
        self.name, self.log = name, log
        self._command, self._env, self._grace_s, self._rest_s = command, env, grace_s, rest_s
        self._rests_until: float | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths: deque[float] = deque(maxlen=MAX_DEATHS)

    def start(self) -> None:
        """Start it; what it prints is appended to its log."""
        with self.log.open("ab") as log:
            self._process = spawn(self._command, env=self._env, log=log, on_parent_death=signal.SIGKILL)

    @property
    def pid(self) -> int | None:
        """Its process, when it was started."""
        return None if self._process is None else self._process.pid

    def status(self) -> int | None:
        """Its exit status; None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    def keep_alive(self) -> bool:
        """Start it again when it ended by itself; whether that was done. Raises StackFailed when it keeps on ending."""
        if self._rests_until is None:
            status = self.status()
            if status is None:
                return False
            self._end_group()
            self._rests_until = time.monotonic() + self._pause(status)
        if time.monotonic() < self._rests_until:
            return False
        self._rests_until = None
        self.start()
        return True

    def _pause(self, status: int) -> float:
        """Seconds until it may be started again, now that it has ended."""
        self._deaths.append(time.monotonic())
        if len(self._deaths) < MAX_DEATHS or self._deaths[-1] - self._deaths[0] >= WITHIN:
            return 0.0
        if self._rest_s is None:
            raise StackFailed(f"the {self.name} ended {MAX_DEATHS} times (status {status}):\n{self.tail()}")
        self._deaths.clear()
        return self._rest_s

    def ask_to_stop(self) -> None:
        """SIGTERM; a second one may ask for more haste."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Ask it to end, wait for its grace, and kill what is left of its group."""
        self.ask_to_stop()
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(self._grace_s)
            self._end_group()

    def tail(self) -> str:
        """The last lines of its log."""
        return tail(self.log)

    def _end_group(self) -> None:
        if self._process is not None:
            kill_group(self._process)
            self._process.wait()
            self._process = None


def run(name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str]) -> str:
    """Run a command to its end; returns what it printed on stdout. Raises StackFailed with the end of its stderr."""
    with log.open("ab") as errors:
        process = spawn(command, env=env, log=errors, out=subprocess.PIPE, on_parent_death=signal.SIGKILL)
    try:
        output, _ = process.communicate()
    except BaseException:
        kill_group(process)
        process.wait()
        raise
    if process.returncode:
        raise StackFailed(f"{name} failed (status {process.returncode}):\n{tail(log)}")
    return output.decode()


def tail(log: Path) -> str:
    """The last lines of a log, however long it is."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 64_000))
        return b"\n".join(file.read().splitlines()[-TAIL:]).decode(errors="replace")

"""Children that never outlive us."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

GUARD = Path(__file__).with_name("guarded.py")


@dataclass(frozen=True, slots=True)
class User:
    """Whom a command runs as; -1 means ourselves."""

    uid: int = -1
    gid: int = -1

    @staticmethod
    def unprivileged(owner: int | None = None) -> User:
        """Ourselves unless we are root: then `owner` when given, else postgres or nobody."""
        if os.geteuid() != 0:
            return User()
        if owner:
            return User(owner, pwd.getpwuid(owner).pw_gid)
        entry = next(e for name in ("postgres", "nobody") if (e := _lookup(name)) is not None)
        return User(entry.pw_uid, entry.pw_gid)

    def may(self, flag: str, path: Path) -> bool:
        """Whether the user may read (``-r``) or enter or run (``-x``) `path`, by the kernel's judgement."""
        return self.run(["test", flag, str(path)]).returncode == 0

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a short command as this user, in /, and keep what it prints."""
        if self.uid < 0:
            return subprocess.run(command, capture_output=True, text=True, cwd="/")
        return subprocess.run(
            command, capture_output=True, text=True, cwd="/", user=self.uid, group=self.gid, extra_groups=[]
        )

    def own(self, path: Path) -> None:
        """Give `path` to the user."""
        if self.uid >= 0:
            os.chown(path, self.uid, self.gid)


def _lookup(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def spawn(
    command: Sequence[str | Path],
    *,
    user: User = User(),
    env: Mapping[str, str] | None = None,
    log: IO[bytes] | None = None,
    out: int | IO[bytes] | None = None,
    cwd: Path | None = None,
    on_parent_death: signal.Signals = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start `command` in a process group of its own; the kernel stops it when the calling thread ends.

    stdout and stderr go to `log` when given; stdout to `out` instead when that is given. Call it from the main thread.
    """
    guard = [sys.executable, "-I", "-S", str(GUARD), str(os.getpid()), str(user.uid), str(user.gid)]
    words = [*guard, str(int(on_parent_death)), *map(str, command)]
    out = log if out is None else out
    return subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=out, stderr=log, env=env, cwd=cwd)


def stop(process: subprocess.Popen[bytes], first: signal.Signals, grace_s: float) -> int:
    """Ask by `first`, and after `grace_s` seconds kill the whole group. Returns the exit status."""
    if process.poll() is None:
        process.send_signal(first)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            kill_group(process)
    return process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to the process and what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()

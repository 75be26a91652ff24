"""Exec a command so that it cannot outlive its parent: ``python -I -S guarded.py PARENT UID GID SIGNAL COMMAND...``.

A script of its own (standard library only) because what it does must happen between fork and exec, where a process
with threads may run no Python. The command gets a process group of its own, so that Ctrl-C reaches only who started
it, loses root (UID and GID; -1 keeps them), and is sent SIGNAL by the kernel when the thread that started it ends
(Linux).
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become the command."""
    parent, uid, gid, signal = (int(word) for word in arguments[:4])
    command = arguments[4:]
    os.setsid()
    if uid >= 0:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
    if sys.platform == "linux":  # after setuid, which clears the setting
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal)
    if os.getppid() != parent:
        sys.exit("the parent ended before the command began")
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

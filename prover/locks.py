"""Locks on files, which end with the process that holds them. A lock on a file that was unlinked meanwhile is worth
nothing to who opens its path later: who has it looks whether the file is still there."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import BinaryIO

File = BinaryIO | int


def lock(file: File, how: int) -> bool:
    """Lock an open file as `fcntl.flock` does; False when that was not to wait (LOCK_NB), and somebody holds it."""
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True


def is_at(file: File, path: Path) -> bool:
    """Whether the open file is still the one at the path."""
    descriptor = file if isinstance(file, int) else file.fileno()
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False

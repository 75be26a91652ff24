"""Folders: whether one can be used, found out before anything depends on it; and what is in it, kept on the disk."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

#: a disk that is only full may have room later
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def unwritable(folder: Path, mode: int = 0o700) -> str | None:
    """Make the folder if need be, and try a file in it: why that cannot be done, or None. A full disk is no reason."""
    try:
        folder.mkdir(mode=mode, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return None
    except OSError as error:
        return None if error.errno in FULL else f"{folder}: {os.strerror(error.errno or errno.EIO)}"


def has_room(folder: Path, bytes_free: int) -> bool:
    """Whether the folder's file system has so many bytes, and a file, for us. A folder that is not there has."""
    try:
        found = os.statvfs(folder)
    except FileNotFoundError:
        return True  # whoever writes there makes it, or hears the reason
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= bytes_free and (found.f_files == 0 or found.f_favail > 0)


def sync(folder: Path) -> None:
    """What was made, renamed or removed in the folder is on the disk when this returns. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

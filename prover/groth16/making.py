"""A key that is being made: locks on files in the key directory, which end with the process that holds them.

NAME.making says so to whoever needs the key, who waits for it instead of failing because it is not there yet. NAME.lock
is for one maker at a time: the files of a key belong together, and two that write them would mix theirs.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

#: what a maker says while it waits for another one
OTHERS_MAKE = "another process makes"


@contextlib.contextmanager
def making(directory: Path, name: str) -> Iterator[None]:
    """Say, for the block, that the key `name` is being made; the last one removes the file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = _path(directory, name)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_SH)  # shared: `up` announces a key that its own `keys setup` makes
        try:
            yield
        finally:
            with contextlib.suppress(BlockingIOError):  # another maker, or who waits, still holds it
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink(missing_ok=True)


def wait_until_made(directory: Path, name: str) -> None:
    """Return when nobody makes the key `name` (any more); at once when nobody does."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), _path(directory, name).open("rb") as file:
        _lock(file)


def is_being_made(directory: Path, name: str) -> bool:
    """Whether somebody makes the key `name` now."""
    try:
        with _path(directory, name).open("rb") as file:
            return not _lock(file, fcntl.LOCK_NB)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def sole_maker(directory: Path, name: str, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Be the only one who makes the key `name` for the block; `waiting` is called once when somebody else does now.

    Afterwards the other's key may be there: look again.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.lock"
    with contextlib.ExitStack() as files:
        file = files.enter_context(path.open("ab"))
        if not _lock(file, fcntl.LOCK_NB):
            waiting()
            _lock(file)
        while not _is_at(file, path):  # who had it has removed the file: another one has the name, or nobody
            file = files.enter_context(path.open("ab"))
            _lock(file)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _lock(file: BinaryIO, how: int = 0) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | how)
    except BlockingIOError:
        return False
    return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _path(directory: Path, name: str) -> Path:
    return directory / f"{name}.making"

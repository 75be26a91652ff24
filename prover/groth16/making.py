"""A key that is being made: locks on files in the key directory, which end with the process that holds them.

NAME.making says so to whoever needs the key, who waits for it instead of failing because it is not there yet. NAME.lock
is for one maker at a time: the files of a key belong together, and two that write them would mix theirs.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from prover.locks import is_at, lock

#: what a maker says while it waits for another one
OTHERS_MAKE = "another process makes"


@contextlib.contextmanager
def making(directory: Path, name: str) -> Iterator[None]:
    """Say, for the block, that the key `name` is being made; the last one removes the file."""
    path = _path(directory, name)
    # shared: `up` announces a key that its own `keys setup` makes
    with _locked(path, fcntl.LOCK_SH) as file:
        try:
            yield
        finally:
            _remove(file, path)  # unless another maker, or who waits, still holds it


def wait_until_made(directory: Path, name: str) -> None:
    """Return when nobody makes the key `name` (any more); at once when nobody does."""
    path = _path(directory, name)
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), path.open("rb") as file:
        lock(file, fcntl.LOCK_EX)
        _remove(file, path)


def is_being_made(directory: Path, name: str) -> bool:
    """Whether somebody makes the key `name` now. What a maker that was killed left is removed: who looks holds it for a
    moment, and would be a maker to others who look then."""
    path = _path(directory, name)
    try:
        with path.open("rb") as file:
            return not _remove(file, path)
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def sole_maker(directory: Path, name: str, waiting: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Be the only one who makes the key `name` for the block; `waiting` is called once when somebody else does now.

    Afterwards the other's key may be there: look again.
    """
    path = directory / f"{name}.lock"
    with _locked(path, fcntl.LOCK_EX, waiting):
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(path: Path, how: int, waiting: Callable[[], object] = lambda: None) -> Iterator[BinaryIO]:
    """The file at `path`, made if need be, with this lock for the block; `waiting` is called once if it is held."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = False
    while True:
        with path.open("ab") as file:
            if not lock(file, how | fcntl.LOCK_NB):
                if not told:
                    waiting()
                told = True
                lock(file, how)
            if is_at(file, path):  # else who had it has removed it: another one has the name, or nobody
                yield file
                return


def _remove(file: BinaryIO, path: Path) -> bool:
    """Unlink the file if nobody else holds it, and whether that is so. Another one at `path` is left."""
    if not lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return False
    if is_at(file, path):
        with contextlib.suppress(OSError):  # a folder that only others may write
            path.unlink()
    return True


def _path(directory: Path, name: str) -> Path:
    return directory / f"{name}.making"

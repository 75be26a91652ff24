"""A key that is being made: a lock on NAME.making in the key directory, which ends with the process that holds it.

Whoever needs the key waits for it instead of failing because it is not there yet.
"""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path


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
    with contextlib.suppress(FileNotFoundError), _path(directory, name).open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)


def _path(directory: Path, name: str) -> Path:
    return directory / f"{name}.making"

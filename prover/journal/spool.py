"""The local file that keeps what the database has not confirmed: append-only, fsynced, one checked line a record.

A line is ``LENGTH CRC32 JSON`` with length and checksum of the JSON in hexadecimal. The first says whose it is. A line
that is damaged is skipped and counted; a torn tail (the machine died while it was written) is no damage.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from prover.folders import has_room, sync, unwritable
from prover.locks import lock
from prover.states import Transition

from .errors import SpoolFull, SpoolUnwritable
from .records import Record, from_json, to_json
from .text import json_text

ROOM = 16 << 20  # bytes that must be free on its disk: what accepted jobs may still have to say
MAX_LINE = 8 << 20  # bytes; a longer one is not read into memory
SUFFIX = ".spool"


class Spool:
    """Records of one session that wait for the database."""

    def __init__(self, folder: Path, session: str) -> None:
        """Opens nothing until there is something to keep."""
        self.path = folder / f"{session}{SUFFIX}"
        self.session = session
        self._file: int | None = None
        self._size = 0

    @property
    def has_room(self) -> bool:
        """Whether its disk has room for what may come; looked at anew each time."""
        return has_room(self.path.parent, ROOM)

    @property
    def empty(self) -> bool:
        """Whether nothing is kept."""
        return self._size == 0

    def append(self, records: Iterable[Record]) -> None:
        """Keep records; when this returns they are on disk. Raises SpoolFull, and then none of them is kept.

        Raises ValueError, TypeError or RecursionError for what has no form in the spool.
        """
        data = b"".join(_line(to_json(record)) for record in records)
        try:
            self._write(data)
        except OSError as error:
            self._undo()
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS):
                raise SpoolFull(f"{self.path}: {error.strerror}") from error
            raise

    def read(self, on_damage: OnDamage | None = None) -> Iterator[Record]:
        """What is kept, in order."""
        if not self.empty:
            yield from read(self.path, on_damage).records

    def clear(self) -> None:
        """Forget what the database has confirmed."""
        self.close()
        self.path.unlink(missing_ok=True)

    def close(self) -> None:
        """Close the file; what it keeps stays for the next start."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._size = None, 0

    def _write(self, data: bytes) -> None:
        if self._file is None:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX)  # says that its session lives
            data = _line(["session", self.session]) + data
            sync(self.path.parent)
        write_through(self._file, data)
        self._size += len(data)

    def _undo(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, self._size)
            if self.empty:  # not even the first line is there
                self.close()


def write_through(file: int, data: bytes) -> None:
    """Write all of it; when this returns it is on the disk. What an OSError leaves is the caller's business."""
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
    os.fsync(file)


def prepare(folder: Path) -> None:
    """Make the folder and see that it can be written. Raises SpoolUnwritable; a disk that is full is no error here."""
    reason = unwritable(folder)
    if reason is not None:
        raise SpoolUnwritable(reason, field="daemon.spool")


@dataclass(slots=True)
class Content:
    """What a spool file holds; `damaged` counts while `records` is read."""

    session: str | None
    records: Iterator[Record]
    damaged: int = 0


#: takes a line that is no record, its JSON (None when it has none), and what is wrong with it
OnDamage = Callable[[bytes, object, Exception], None]


def read(path: Path, on_damage: OnDamage | None = None) -> Content:
    """Open a file left by any session. Nothing in it is trusted: `session` is None when it does not begin as one."""
    file = open(path, "rb")  # closed by the generator
    session = _owner(file)
    if session is None:
        file.close()
        return Content(None, iter(()), damaged=1)
    content = Content(session, iter(()))
    content.records = _records(file, content, on_damage)
    return content


def owner(path: Path) -> str | None:
    """Whose spool a file says it is; None when it is no spool."""
    with open(path, "rb") as file:
        return _owner(file)


def _owner(file: BinaryIO) -> str | None:
    """Reads the first line."""
    match _parse(file.readline(MAX_LINE)):
        case ["session", str(session)]:
            return session
    return None


def left_behind(folder: Path) -> list[Path]:
    """Spools whose sessions are dead: no process holds them."""
    return [path for path in sorted(folder.glob(f"*{SUFFIX}")) if not _is_held(path)]


def _is_held(path: Path) -> bool:
    with open(path, "rb") as file:
        return not lock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)


def _records(file: BinaryIO, content: Content, on_damage: OnDamage | None) -> Iterator[Record]:
    with file:
        while line := file.readline(MAX_LINE):
            if not line.endswith(b"\n") and len(line) < MAX_LINE:
                return  # torn by the end of its writer
            value = _parse(line)
            try:
                yield _record(value, content.session)
            except ValueError as error:
                content.damaged += 1
                if on_damage is not None:
                    on_damage(line, value, error)


def _record(value: object, session: str | None) -> Record:
    if value is None:
        raise ValueError("length or checksum is wrong")
    record = from_json(value)
    if isinstance(record, Transition) and record.session != session:
        raise ValueError(f"a move of another session: {record.session!r}")
    return record


def _parse(line: bytes) -> object:
    """The JSON of a line, or None when length or checksum is wrong."""
    head, _, rest = line.partition(b" ")
    checksum, _, text = rest.rstrip(b"\n").partition(b" ")
    try:
        if int(head, 16) != len(text) or int(checksum, 16) != zlib.crc32(text):
            return None
        return json.loads(text)
    except ValueError:
        return None


def _line(value: object) -> bytes:
    text = json_text(value).encode()
    if len(text) > MAX_LINE - 30:
        raise ValueError(f"a record of {len(text)} bytes would not be read back")
    return b"%x %x %s\n" % (len(text), zlib.crc32(text), text)

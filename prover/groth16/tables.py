"""Bases and fixed-base tables on disk: made once a machine, mapped by every process that proves.

A folder has, for each `.params` file by its digest, a file a section: a header of one page (format, owner, layout),
which bases are finite as a bit each, padded to a page, the rows float32, and the SHA-256 of each 16 MiB of all this. It
holds nothing that could not be made again: a file that is damaged, of another format or of another key is reported and
made anew, and a full disk costs time, not the proof. Files are written whole under another name and then renamed, so
that a reader sees a whole one or none; of several processes that want one, one makes it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import logging
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from prover.algebra import points
from prover.algebra.bases import Kept, Layout, Points, pieces
from prover.algebra.fields import FP, Bools
from prover.algebra.kernels import in_threads
from prover.algebra.points import Rows
from prover.errors import CuzkError
from prover.folders import sync
from prover.locks import is_at, lock

log = logging.getLogger(__name__)

#: raised whenever rows, their order or the file's layout change their meaning
VERSION: Final = 1
_MAGIC: Final = b"CUZKROWS"
#: magic, version, degree, then bases, parts, bits, length, sets, copies, columns; owner and section, the field's primes
_HEADER: Final = struct.Struct("<8sII7Q32s32s")
_PAGE: Final = 4096
_HASHED: Final = 1 << 24
_DIGEST_SIZE: Final = 32
#: files go that nobody mapped for a month; those of another layout, when theirs was made anew, after a day: another
#: memory setting, or a key that is gone
_KEPT_UNUSED_S: Final = 30 * 86_400.0
_REPLACED_UNUSED_S: Final = 86_400.0
#: between looks whether another process has made the file
_LOOK_EVERY_S: Final = 0.5
#: told how much of a file is made, and called while another process makes it
Told = Callable[[float], None]


class TablesNotKept(CuzkError):
    """Bases or tables cannot be kept on disk; proofs go on without."""

    code = "tables_not_kept"


class _Damaged(Exception):
    """A file is not what its name says."""


@dataclass(frozen=True)
class TableFile:
    """A file of the folder, as its name says."""

    section: str
    copies: int
    size: int  # bytes


class TableStore:
    """The files in one folder, which is made when it is needed."""

    def __init__(self, folder: Path, threads: int = 1) -> None:
        """`threads` check a file when it is mapped. What makers that were killed left in the folder is removed, and
        what nobody mapped for a month."""
        self.folder, self._threads = folder, threads
        with contextlib.suppress(OSError):
            _remove_interrupted(folder.glob("*/*.making"))
            _remove_unused(folder.glob("*/*.rows"), _KEPT_UNUSED_S)

    def files(self, owner: str) -> list[TableFile]:
        """What there is for the key with this digest."""
        found = sorted((self.folder / owner).glob("*.rows"))
        return [TableFile(*_named(path), path.stat().st_size) for path in found]

    def find(self, owner: str, section: str, layout: Layout) -> Kept | None:
        """The rows, mapped, when they are there: every byte is checked. `owner` is the digest of the key's file."""
        path = self._path(owner, section, layout)
        try:
            return _mapped(path, _Form(layout, owner, section), self._threads)
        except FileNotFoundError:
            return None
        except (_Damaged, OSError) as error:
            log.warning("tables discarded: %s: %s", path, error)
            return None

    def make(
        self, owner: str, section: str, layout: Layout, data: Points, told: Told | None = None, threads: int = 1
    ) -> Kept:
        """The rows, mapped, made first by us or, if `told` is given, perhaps by another process that we wait for.

        `told` hears the part of the bases that is done; what it raises ends the work. Raises TablesNotKept.
        """
        path = self._path(owner, section, layout)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            making = path.with_suffix(".making")
            with _alone(making, told) as file:
                _remove_interrupted(other for other in path.parent.glob(f"{section}-*.making") if other != making)
                made = self.find(owner, section, layout)
                if made is None:
                    made = _written(file, _Form(layout, owner, section), data, told or (lambda _: None), threads)
                    making.rename(path)
                    sync(path.parent)
                    _remove_unused((old for old in _tables(path.parent, section) if old != path), _REPLACED_UNUSED_S)
                return made
        except OSError as error:
            raise TablesNotKept(f"{path}: {error.strerror or error}", field=section) from error

    def _path(self, owner: str, section: str, layout: Layout) -> Path:
        w = layout.windows
        windows = f"{w.copies}x{w.bits}x{w.sets}" if layout.fixed else "1"
        return self.folder / owner / f"{section}-{windows}-{layout.parts}.rows"


@dataclass(frozen=True)
class _Form:
    """What the file of a section must be."""

    layout: Layout
    owner: str
    section: str

    @functools.cached_property
    def header(self) -> bytes:
        """The first page."""
        layout, w = self.layout, self.layout.windows
        windows = (w.bits, w.length, w.sets, w.copies) if layout.fixed else (0, w.length, 0, 1)
        counts = (layout.size, layout.parts, *windows, layout.group.affine_columns)
        owner, field = sha256(f"{self.owner} {self.section}".encode()), sha256(repr([FP.moduli, FP.scales]).encode())
        packed = _HEADER.pack(_MAGIC, VERSION, layout.group.degree, *counts, owner.digest(), field.digest())
        return packed.ljust(_PAGE, b"\0")

    @property
    def rows_at(self) -> int:
        return _PAGE + -(-self.layout.size // (8 * _PAGE)) * _PAGE

    @property
    def row_size(self) -> int:
        return 4 * self.layout.group.affine_columns

    @property
    def body_size(self) -> int:
        """All but the checksums."""
        return self.rows_at + self.layout.nbytes

    @property
    def file_size(self) -> int:
        return self.body_size + _DIGEST_SIZE * -(-self.body_size // _HASHED)


def _named(path: Path) -> tuple[str, int]:
    """Section and copies of a file's name."""
    section, _, rest = path.name.partition("-")
    copies = rest.split("x")[0].split("-")[0]
    return section, int(copies) if copies.isdecimal() else 0


def _mapped(path: Path, form: _Form, threads: int) -> Kept:
    """The rows of a file that is what it should be. Raises _Damaged, OSError."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size != form.file_size:
            raise _Damaged(f"{size} bytes, not {form.file_size}")
        if file.read(_PAGE) != form.header:
            raise _Damaged("of another format, key or layout")
        packed = np.frombuffer(file.read(form.rows_at - _PAGE), np.uint8)
        file.seek(form.body_size)
        if file.read() != b"".join(_digests(file, form, threads)):
            raise _Damaged("the checksum does not match")
        finite = np.unpackbits(packed, count=form.layout.size).astype(np.bool_)
        with contextlib.suppress(OSError):  # a folder of others
            os.utime(path)  # it is used
        return Kept(form.layout, _rows(file, form), finite)


def _rows(file: BinaryIO, form: _Form) -> Rows:
    shape = (form.layout.rows, form.layout.group.affine_columns)
    return np.memmap(file, np.float32, "r", form.rows_at, shape).view(np.ndarray)


def _digests(file: BinaryIO, form: _Form, threads: int) -> list[bytes]:
    """Of all but the checksums. Read, not mapped: what is mapped twice counts twice in the process's memory."""

    def digest(start: int) -> bytes:
        return sha256(os.pread(file.fileno(), min(_HASHED, form.body_size - start), start)).digest()

    return in_threads(digest, range(0, form.body_size, _HASHED), threads)


def _written(file: BinaryIO, form: _Form, data: Points, told: Told, threads: int) -> Kept:
    """Write all of the file; the rows, mapped."""
    began = time.monotonic()
    os.posix_fallocate(file.fileno(), 0, form.file_size)  # a full disk is met now, not after the work
    finite = _write_rows(file, form, data, told, threads)
    digests = _digests(file, form, threads)
    file.seek(form.body_size)
    file.write(b"".join(digests))
    file.flush()
    os.fsync(file.fileno())
    seconds = time.monotonic() - began
    log.info("made %d MiB of rows for %s in %.1f s", form.file_size >> 20, form.section, seconds)
    return Kept(form.layout, _rows(file, form), finite)


def _write_rows(file: BinaryIO, form: _Form, data: Points, told: Told, threads: int) -> Bools:
    """Header, bits and rows, each at its place; which bases are finite."""
    layout, finite = form.layout, np.empty(form.layout.size, np.bool_)
    told(0.0)
    file.write(form.header)
    file.seek(form.rows_at)
    file.write(points.infinity_row(layout.group).data)
    for piece in pieces(layout, data, threads):
        for at, rows in piece.rows:
            file.seek(form.rows_at + at * form.row_size)
            file.write(np.ascontiguousarray(rows).data)
        finite[piece.first : piece.first + len(piece.finite)] = piece.finite
        told((piece.first + len(piece.finite)) / layout.size)
    file.seek(_PAGE)
    file.write(np.packbits(finite).data)
    file.flush()
    return finite


@contextlib.contextmanager
def _alone(path: Path, told: Told | None) -> Iterator[BinaryIO]:
    """The file at `path`, which no other process works on; gone at the end unless it was renamed."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with open(descriptor, "r+b") as file:
            if _claimed(descriptor, path):
                os.ftruncate(descriptor, 0)
                try:
                    yield file
                finally:
                    if is_at(descriptor, path):
                        path.unlink()
                return
        if told is None:
            raise BlockingIOError("another process makes it")
        told(0.0)
        time.sleep(_LOOK_EVERY_S)


def _remove_interrupted(paths: Iterable[Path]) -> None:
    """Unlink files that a process began and no process works on: they are of full size."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError), path.open("r+b") as file:
            if _claimed(file.fileno(), path):
                path.unlink()


def _remove_unused(paths: Iterable[Path], seconds: float) -> None:
    """Unlink files that were not mapped for so long; who maps one now keeps what it has."""
    for path in paths:
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > seconds:
                path.unlink()
                log.info("tables removed, unused: %s", path)


def _tables(folder: Path, section: str) -> list[Path]:
    """The files of a section that have more than its bases."""
    return [path for path in folder.glob(f"{section}-*.rows") if _named(path)[1] > 1]


def _claimed(descriptor: int, path: Path) -> bool:
    """Whether the file is ours alone, and still the one at `path`."""
    return lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB) and is_at(descriptor, path)

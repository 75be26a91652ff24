"""Recorded matrices on disk: written atomically, checked when read, never trusted.

A file is: magic, header (version, identity of the circuit, counts), the arrays, and the SHA-256 of all before it. It is
a mere copy of what recording gives: a damaged one is reported and recorded anew, a full disk costs time, not the job.
"""

from __future__ import annotations

import logging
import os
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prover.circuits.errors import CacheDamaged
from prover.circuits.matrices import Matrices, SparseRows
from prover.filecoin.poseidon import MODULUS
from prover.folders import sync

log = logging.getLogger(__name__)

#: raised whenever the layout of the file or the rows of any gadget change
VERSION = 2
_MAGIC = b"CUZKR1CS"
_HEADER = struct.Struct("<8sI4x32s7Q")
_DIGEST_SIZE = 32


def load_or_record(path: Path, identity: str, record: Callable[[], Matrices]) -> Matrices:
    """The matrices in the file at `path` if it is sound and belongs to `identity`, else recorded and written there."""
    try:
        return read(path, identity)
    except FileNotFoundError:
        pass
    except CacheDamaged as damage:
        log.warning("recorded circuit discarded: %s", damage)
    except OSError as error:
        log.warning("recorded circuit not readable: %s", error)
    matrices = record()
    try:
        write(path, identity, matrices)
    except OSError as error:
        log.warning("recorded circuit not kept: %s", error)
    return matrices


def write(path: Path, identity: str, matrices: Matrices) -> None:
    """Replaces the file at `path` as a whole: readers see the old one or the new one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            hasher = sha256()
            for chunk in _chunks(identity, matrices):
                hasher.update(chunk)
                file.write(chunk)
            file.write(hasher.digest())
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    sync(path.parent)


def read(path: Path, identity: str) -> Matrices:
    """The matrices in the file at `path`. Raises CacheDamaged, OSError; FileNotFoundError when there is none."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        layout = _Layout.of_header(file.read(_HEADER.size), identity, path)
        if size != layout.file_size:
            raise CacheDamaged(f"{path}: {size} bytes, its header announces {layout.file_size}")
        file.seek(0)
        content = file.read(size)
    if len(content) != size or sha256(memoryview(content)[:-_DIGEST_SIZE]).digest() != content[-_DIGEST_SIZE:]:
        raise CacheDamaged(f"{path}: the checksum does not match")
    matrices = layout.matrices(content)
    _check(matrices, path)
    return matrices


def _chunks(identity: str, matrices: Matrices) -> Iterator[bytes]:
    counts = (matrices.num_inputs, matrices.num_aux, matrices.num_constraints, *matrices.nnz, len(matrices.coefs))
    yield _HEADER.pack(_MAGIC, VERSION, _identity_digest(identity), *counts)
    parts = (matrices.a, matrices.b, matrices.c)
    for array in (*(part.indptr for part in parts), *(part.col for part in parts)):
        yield array.astype("<i4").tobytes()
    for part in parts:
        yield part.coef.astype("<u2").tobytes()
    yield matrices.coefs.tobytes()
    yield np.packbits(matrices.bit_mask).tobytes()


def _identity_digest(identity: str) -> bytes:
    return sha256(identity.encode()).digest()


@dataclass(frozen=True, slots=True)
class _Layout:
    """The counts of a header, and where they put the arrays."""

    num_inputs: int
    num_aux: int
    num_constraints: int
    nnz: tuple[int, int, int]
    num_coefs: int

    @classmethod
    def of_header(cls, header: bytes, identity: str, path: Path) -> _Layout:
        if len(header) < _HEADER.size:
            raise CacheDamaged(f"{path}: {len(header)} bytes are no header")
        magic, version, digest, inputs, aux, constraints, a, b, c, coefs = _HEADER.unpack(header)
        if magic != _MAGIC:
            raise CacheDamaged(f"{path}: not a recorded circuit")
        if version != VERSION:
            raise CacheDamaged(f"{path}: version {version}, not {VERSION}")
        if digest != _identity_digest(identity):
            raise CacheDamaged(f"{path}: the circuit is another one than {identity}")
        return cls(inputs, aux, constraints, (a, b, c), coefs)

    @property
    def file_size(self) -> int:
        words = 3 * (self.num_constraints + 1) + sum(self.nnz)
        return _HEADER.size + 4 * words + 2 * sum(self.nnz) + 32 * self.num_coefs + self._bit_bytes + _DIGEST_SIZE

    @property
    def _bit_bytes(self) -> int:
        return -(-self.num_aux // 8)

    def matrices(self, content: bytes) -> Matrices:
        """Views of the file's bytes; `content` has `file_size` bytes."""
        rows = self.num_constraints + 1
        reader = _ArrayReader(content)
        indptr = [reader.take(rows, np.dtype("<i4")) for _ in self.nnz]
        col = [reader.take(count, np.dtype("<i4")) for count in self.nnz]
        coef = [reader.take(count, np.dtype("<u2")) for count in self.nnz]
        coefs = reader.take(32 * self.num_coefs, np.dtype("u1")).reshape(-1, 32)
        packed = reader.take(self._bit_bytes, np.dtype("u1"))
        bits = np.unpackbits(packed, count=self.num_aux).astype(bool)
        a, b, c = (SparseRows(*parts) for parts in zip(indptr, col, coef, strict=True))
        return Matrices(self.num_inputs, self.num_aux, a, b, c, coefs, bits)


class _ArrayReader:
    """Takes the arrays of a file one after the other, as read-only views."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = _HEADER.size

    def take(self, count: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        array = np.frombuffer(self._content, dtype, count, self._at)
        self._at += array.nbytes
        return array


def _check(matrices: Matrices, path: Path) -> None:
    """Raises CacheDamaged unless every number points to something that exists."""
    for name, matrix in (("A", matrices.a), ("B", matrices.b), ("C", matrices.c)):
        pointers = matrix.indptr
        if pointers[0] != 0 or pointers[-1] != matrix.nnz or np.any(np.diff(pointers) < 0):
            raise CacheDamaged(f"{path}: the row pointers of {name} are out of order")
        if matrix.nnz and not 0 <= matrix.col.min() <= matrix.col.max() < matrices.num_columns:
            raise CacheDamaged(f"{path}: a column of {name} does not exist")
        if matrix.nnz and matrix.coef.max() >= len(matrices.coefs):
            raise CacheDamaged(f"{path}: a coefficient of {name} does not exist")
    if any(int.from_bytes(value, "little") >= MODULUS for value in matrices.coefs):
        raise CacheDamaged(f"{path}: a coefficient is not canonical")

"""The files of the command line: read within limits, written whole."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from prover.filecoin import request

from .exits import FileUnreadable, FileUnwritable


def read_file(path: Path, limit: int) -> bytes:
    """At most `limit` bytes. Raises FileUnreadable, also for a longer file, before it is read."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(limit + 1) if size <= limit else b""
    except OSError as error:
        raise FileUnreadable(f"{path}: {error.strerror or error}") from error
    if size > limit or len(data) > limit:
        raise FileUnreadable(f"{path}: {max(size, len(data))} bytes or more, at most {limit} allowed")
    return data


def read_request(path: Path) -> request.ProofRequest:
    """The proof request in a JSON file. Raises a subclass of InvalidInput."""
    return request.parse_json(read_file(path, request.MAX_REQUEST))


def write_file(path: Path, data: bytes) -> None:
    """The file is there whole or as it was before. Raises FileUnwritable."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)  # a pipe or a terminal
        else:
            _replace(path, data)
    except OSError as error:
        raise FileUnwritable(f"{path}: {error.strerror or error}") from error


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise

"""Records that are refused, by the database or by the spool's form, in a file of their own: one JSON object a line.

`code` and `error` say why; `record` is the record as the spool has it, or `line` what could not be read at all. A
person looks at it, and removes it. It is read back for one thing: what is refused again, at each attempt to write the
rest, is there already.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import structlog

from .errors import RecordDamaged, RecordRefused
from .records import Record, to_json
from .spool import MAX_LINE, write_through
from .text import json_text

SUFFIX = ".refused"
MAX_TEXT = 1000  # characters of an error
_MAX_ENTRY = 8 * MAX_LINE  # bytes; a damaged line of the spool, escaped

log = structlog.get_logger(__name__)

#: what a record itself can be at fault for; anything else is trouble of the database, and the record waits
_OF_RECORDS = (
    psycopg.DataError, psycopg.IntegrityError, ValueError, TypeError, ArithmeticError, LookupError, AttributeError,
    RecursionError,
)  # fmt: skip


def is_refusal(error: BaseException) -> bool:
    """Whether the same record will be refused again, while others are not. Class 54: larger than Postgres can take."""
    if isinstance(error, psycopg.Error) and (error.sqlstate or "").startswith("54"):
        return True
    return isinstance(error, _OF_RECORDS)


class Aside:
    """The refused records of one session. For one thread; what the disk does not take waits in memory."""

    def __init__(self, folder: Path, session: str) -> None:
        """Makes no file before there is something to keep."""
        self.path = folder / f"{session}{SUFFIX}"
        self._session = session
        self._waiting: list[bytes] = []
        self._blocked = False
        self._kept: set[bytes] | None = None  # digests of what was set aside, from the file on; read when needed

    @property
    def empty(self) -> bool:
        """Whether nothing waits for the disk."""
        return not self._waiting

    def keep(self, record: Record, error: BaseException) -> None:
        """Set aside what the database or the spool refused."""
        self._add(RecordRefused.code, error, {"record": _form(record)})

    def keep_line(self, line: bytes, parsed: object, error: Exception) -> None:
        """Set aside a line of a spool that is no record; `parsed` is its JSON, None when it has none."""
        what = {"line": line.decode("latin-1")} if parsed is None else {"record": parsed}
        self._add(RecordDamaged.code, error, what)

    def flush(self) -> bool:
        """Write what waits; whether nothing waits any more."""
        if not self._waiting:
            return True
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                _append(file, b"".join(self._waiting))
            finally:
                os.close(file)
        except OSError as error:
            if not self._blocked:  # once, however often it is tried
                log.error("refused records cannot be set aside", file=str(self.path), error=str(error))
            self._blocked = True
            return False
        self._waiting.clear()
        self._blocked = False
        return True

    def _add(self, code: str, error: BaseException, what: dict[str, Any]) -> None:
        if self._kept is None:
            self._kept = {_digest(entry) for entry in _entries(self.path)}
        digest = _digest({"code": code, **what})
        if digest in self._kept:
            return
        self._kept.add(digest)
        text = f"{type(error).__name__}: {error}"[:MAX_TEXT]
        self._waiting.append(json_text({"code": code, "error": text, **what}).encode() + b"\n")
        log.error("record set aside", code=code, error=text, session=self._session, file=str(self.path))
        self.flush()


def _digest(entry: dict[str, Any]) -> bytes:
    """Of what was refused and by which code; the words of the error may differ from one attempt to the next."""
    return hashlib.sha256(json_text([entry.get(key) for key in ("code", "record", "line")]).encode()).digest()


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    """What the file has; lines that are none are left out, and so is what comes after a line beyond all bounds."""
    with suppress(OSError), path.open("rb") as file:
        while len(line := file.readline(_MAX_ENTRY)) < _MAX_ENTRY and line:
            with suppress(ValueError, RecursionError):
                entry = json.loads(line)
                if isinstance(entry, dict):
                    yield entry


def _append(file: int, data: bytes) -> None:
    """All or nothing: the waiting records are written again when this fails."""
    size = os.fstat(file).st_size
    try:
        write_through(file, data)
    except OSError:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def _form(record: Record) -> object:
    """As in the spool; or in words, when it has no such form."""
    try:
        value = to_json(record)
        json_text(value)
        return value
    except (ValueError, TypeError, RecursionError):
        return [type(record).__name__.lower(), repr(record)]

"""A directory of keys under the names that the Filecoin stack gives them.

A key NAME is NAME.params, NAME.vk and NAME.meta. Two files of our own lie beside them: NAME.local marks a key that was
made here (good for tests and test networks, never for the chain), and NAME.checked records that every point of the
file with this digest was checked, so that it's done once. The record also has what the file system says of the file:
a list of keys can tell at once that a file is not the one that was checked, without reading it. A key is one for the
chain when its verifying key is the published one; then its NAME.params must be the published one too. NAME.damaged
marks one whose files turned out damaged when it was loaded: nobody tries again before they change.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from prover.filecoin.published import Manifest, file_digest, published
from prover.groth16.errors import KeyExists, KeyFileDamaged, KeyNotFound, KeyWriteFailed
from prover.groth16.keys import Parameters, VerifyingKey
from prover.groth16.making import sole_maker

LOCAL_WARNING = "local keys: not for the chain"
UNKNOWN_WARNING = "not the published keys: not for the chain"
_PREFIX = "v28-"
_MAX_VK_BYTES = 1 << 23  # that of WindowPoSt over 32 GiB sectors has 2.5 MB
_MAX_SIDECAR_BYTES = 1 << 16


class Origin(StrEnum):
    """Where a key comes from, as far as its verifying key tells."""

    PUBLISHED = "published"  # for the chain
    LOCAL = "local"  # made here
    UNKNOWN = "unknown"


#: what must be said of keys that are not for the chain
WARNINGS: dict[Origin, str] = {Origin.PUBLISHED: "", Origin.LOCAL: LOCAL_WARNING, Origin.UNKNOWN: UNKNOWN_WARNING}


@dataclass(frozen=True)
class KeyEntry:
    """One key of the directory, as its files say without reading the points."""

    name: str
    path: Path
    size: int  # bytes
    origin: Origin
    digest: str | None  # of the file that was checked; None when none was
    checked_at: float | None  # seconds since the epoch
    changed: bool  # since it was checked, as far as the file system tells
    set_aside: str | None = None  # why nobody tries to load it again

    @property
    def local(self) -> bool:
        """Whether the key was made here."""
        return self.origin is Origin.LOCAL

    @property
    def warning(self) -> str | None:
        """What must be said wherever this key is shown or used; nothing of a key for the chain."""
        return WARNINGS[self.origin] or None


class KeyStore:
    """The keys in one directory (FIL_PROOFS_PARAMETER_CACHE of the Filecoin stack)."""

    def __init__(self, directory: Path, manifest: Manifest | None = None) -> None:
        """`manifest`: the published files; those of the Filecoin network when there is none."""
        self.directory = directory
        self._manifest = published() if manifest is None else manifest
        self._aside: dict[str, dict[str, Any]] = {}  # marks of this process, where the directory is not to be written

    def path(self, name: str, suffix: str) -> Path:
        """The file of the key `name` ("v28-...", without suffix) with `suffix` params, vk, meta, local or checked."""
        if os.sep in name or not name.startswith(_PREFIX):
            raise KeyNotFound(f"{name!r} is no name of a key", field="name")
        return self.directory / f"{name}.{suffix}"

    def entries(self) -> list[KeyEntry]:
        """Every key of the directory, by name."""
        if not self.directory.is_dir():
            return []
        return [self.find(path.stem) for path in sorted(self.directory.glob(f"{_PREFIX}*.params"))]

    def find(self, name: str) -> KeyEntry:
        """The key `name`, or KeyNotFound."""
        path = self.path(name, "params")
        if not path.is_file():
            raise KeyNotFound(f"{path.name} is not in {self.directory}")
        record = _read_json(self.path(name, "checked"))
        return KeyEntry(
            name=name,
            path=path,
            size=path.stat().st_size,
            origin=self.origin(name, record),
            digest=record.get("digest"),
            checked_at=record.get("checked_at"),
            changed=bool(record) and record.get("file") != _identity(path),
            set_aside=self._cause(name),
        )

    def is_local(self, name: str, record: dict[str, Any] | None = None) -> bool:
        """Whether this key was made here: not for the chain. A marker counts unless another file was checked since.

        `record`: that of the check, when it was read already.
        """
        marker = self.path(name, "local")
        checked = (_read_json(self.path(name, "checked")) if record is None else record).get("digest")
        return marker.exists() and checked in (None, _read_json(marker).get("digest"))

    def origin(self, name: str, record: dict[str, Any] | None = None) -> Origin:
        """Where the key comes from: made here, or with the published verifying key, or neither."""
        if self.is_local(name, record):
            return Origin.LOCAL
        known = self._manifest.get(f"{name}.vk")
        try:
            found = known and file_digest(self.verifying_key(name).to_bytes()) == known.digest
        except (KeyFileDamaged, KeyNotFound):
            return Origin.UNKNOWN
        return Origin.PUBLISHED if found else Origin.UNKNOWN

    def verifying_key(self, name: str) -> VerifyingKey:
        """Read NAME.vk, or else the head of NAME.params. Its points are checked when it's prepared."""
        path = self.path(name, "vk")
        if not path.is_file():
            parameters = self.path(name, "params")
            if not parameters.is_file():
                raise KeyNotFound(f"{parameters.name} is not in {self.directory}")
            return Parameters.open(parameters).vk
        if path.stat().st_size > _MAX_VK_BYTES:
            raise KeyFileDamaged(f"larger than {_MAX_VK_BYTES} bytes", field=path.name)
        return VerifyingKey.parse(path.read_bytes())

    def open(self, name: str, progress: Callable[[float], None] | None = None) -> Parameters:
        """Map the key and make sure that every point in it was checked: by the record beside it, or else now.

        KeyFileDamaged when the file isn't the one that the record speaks of, naming the sections that changed, and
        when the `.vk` beside it differs. The file is read for that, whatever the file system says of it; the same
        content in another file (a copy, say) is bound to its record anew. `progress` gets the fraction of the points
        checked.
        """
        entry = self.find(name)
        identity = _identity(entry.path)
        parameters = Parameters.open(entry.path)
        self._compare_vk(name, parameters)
        record = _read_json(self.path(name, "checked"))
        if not record:
            self.check(name, progress)
            return parameters
        digest = parameters.digest()
        self._compare_published(entry, digest)
        if record.get("digest") != digest:
            changed = [k for k, v in parameters.section_digests().items() if record.get("sections", {}).get(k) != v]
            raise KeyFileDamaged(
                f"{parameters.path} has changed since it was checked; if that's meant, run `cuzk keys check`",
                field=", ".join(changed) or "file",
            )
        if entry.changed:
            self._write_record(name, record | {"file": identity})
        return parameters

    def check(self, name: str, progress: Callable[[float], None] | None = None) -> KeyEntry:
        """Check every point of the key whatever the record says, and record it. Raises KeyFileDamaged."""
        entry = self.find(name)
        identity = _identity(entry.path)  # before anything is read, so that whatever changes meanwhile is seen
        parameters = Parameters.open(entry.path)
        self._compare_vk(name, parameters)
        parameters.check(_fraction(parameters.point_count(), progress) if progress else None)
        digest = parameters.digest()
        self._compare_published(entry, digest)
        self._acquit(name)
        self._write_record(name, _record(parameters, digest) | {"file": identity})
        return self.find(name)

    def add(self, name: str, parameters: Parameters, sector_size: int, known_scalars: bool) -> KeyEntry:
        """Write a key that was made here, with its `.vk`, `.meta` and marker; then NAME.params, whole, and its record.

        Raises KeyExists: a key is never overwritten. Files that a broken-off set-up left without `.params` are. Waits
        for whoever makes the same key.
        """
        with sole_maker(self.directory, name):
            return self.add_alone(name, parameters, sector_size, known_scalars)

    def add_alone(self, name: str, parameters: Parameters, sector_size: int, known_scalars: bool) -> KeyEntry:
        """As `add`, for the block of a `sole_maker`."""
        self.refuse_existing(name)
        self.path(name, "checked").unlink(missing_ok=True)  # of a file that is gone
        _write(self.path(name, "local"), [_marker(parameters, known_scalars)])
        _write(self.path(name, "vk"), [parameters.vk.to_bytes()])
        _write(self.path(name, "meta"), [json.dumps({"sector_size": sector_size}).encode()])
        _write(self.path(name, "params"), parameters.chunks(), keep_existing=True)
        identity = _identity(self.path(name, "params"))
        self._write_record(name, _record(parameters, parameters.digest()) | {"file": identity})
        return self.find(name)

    def refuse_existing(self, name: str) -> None:
        """Raise KeyExists when the key `name` is there, so that a set-up ends before its long work."""
        foreign_vk = self.path(name, "vk").exists() and not self.is_local(name)
        if self.path(name, "params").exists() or foreign_vk:
            raise KeyExists(f"{name} is in {self.directory} already; remove it by hand if it's to be made again")

    def set_aside(self, name: str, error: KeyFileDamaged) -> None:
        """Mark a key whose files turned out damaged: it is not tried again before they are others, or `check` is glad
        of them."""
        mark = {"cause": str(error), "code": error.code, "at": time.time(), "files": self._identities(name)}
        self._aside[name] = mark
        with contextlib.suppress(KeyWriteFailed):  # a directory that others own: this process knows it
            _write(self.path(name, "damaged"), [json.dumps(mark).encode()])

    def refuse_set_aside(self, name: str) -> None:
        """Raise KeyFileDamaged, with the cause, for a key that was set aside and whose files are the same still."""
        cause = self._cause(name)
        if cause is not None:
            raise KeyFileDamaged(f"set aside: {cause}; put another file there, or run `cuzk keys check`", field=name)

    def _cause(self, name: str) -> str | None:
        mark = _read_json(self.path(name, "damaged")) or self._aside.get(name, {})
        same = bool(mark) and mark.get("files") == self._identities(name)
        return str(mark.get("cause")) if same else None

    def _identities(self, name: str) -> dict[str, dict[str, int] | None]:
        files = {suffix: self.path(name, suffix) for suffix in ("params", "vk")}
        return {suffix: _identity(path) if path.exists() else None for suffix, path in files.items()}

    def _acquit(self, name: str) -> None:
        self._aside.pop(name, None)
        with contextlib.suppress(OSError):
            self.path(name, "damaged").unlink(missing_ok=True)

    def _write_record(self, name: str, record: dict[str, Any]) -> None:
        with contextlib.suppress(KeyWriteFailed):  # a directory that others own: the check is made again next time
            _write(self.path(name, "checked"), [json.dumps(record).encode()])

    def _compare_vk(self, name: str, parameters: Parameters) -> None:
        if self.verifying_key(name).to_bytes() != parameters.vk.to_bytes():
            raise KeyFileDamaged("the .vk file is of another key than the .params file", field=f"{name}.vk")

    def _compare_published(self, entry: KeyEntry, digest: str) -> None:
        """A published verifying key with other parameters behind it: a file that was damaged on its way."""
        known = self._manifest.get(entry.path.name)
        if entry.origin is Origin.PUBLISHED and known and digest != known.digest:
            text = f"the digest is {digest}, that of the published file {known.digest}"
            raise KeyFileDamaged(text, field=entry.path.name)


def _marker(parameters: Parameters, known_scalars: bool) -> bytes:
    marker = {
        "warning": LOCAL_WARNING,
        "digest": parameters.digest(),
        "made_at": time.time(),
        "known_scalars": known_scalars,
    }
    return json.dumps(marker).encode()


def _record(parameters: Parameters, digest: str) -> dict[str, Any]:
    return {
        "digest": digest,
        "size": parameters.size,
        "sections": parameters.section_digests(),
        "points": parameters.point_count(),
        "checked_at": time.time(),
    }


def _identity(path: Path) -> dict[str, int]:
    """What a file cannot keep when it is written to or replaced: nobody can set back the ctime."""
    found = path.stat()
    return {
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
        "inode": found.st_ino,
    }


def _fraction(total: int, progress: Callable[[float], None]) -> Callable[[int], None]:
    done = 0

    def add(points: int) -> None:
        nonlocal done
        done += points
        progress(done / total)

    return add


def _read_json(path: Path) -> dict[str, Any]:
    """A sidecar file, or nothing when it's absent or unreadable: then the key is checked again."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(_MAX_SIDECAR_BYTES))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _write(path: Path, chunks: Iterable[bytes | memoryview], keep_existing: bool = False) -> None:
    """Write a file that is there whole or not at all, and on disk. KeyExists when it is there and must be kept."""
    try:
        with _temporary(path) as temporary:
            with temporary.open("wb") as file:
                for chunk in chunks:
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            _publish(temporary, path, keep_existing)
    except FileExistsError:
        raise KeyExists(f"{path.name} is there already") from None
    except OSError as error:
        raise KeyWriteFailed(f"{path}: {error.strerror or error}", field=path.suffix[1:]) from error


@contextlib.contextmanager
def _temporary(path: Path) -> Iterator[Path]:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _publish(temporary: Path, path: Path, keep_existing: bool) -> None:
    temporary.chmod(0o644)
    if not keep_existing:
        temporary.replace(path)
        return
    try:
        os.link(temporary, path)  # unlike a rename, this fails when the file is there
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS) or path.exists():
            raise
        temporary.replace(path)  # a file system without links

"""What a prover needs, looked at piece by piece: `cuzk doctor`. A check reports; it repairs nothing."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from .config import Config, cpus
from .errors import CuzkError
from .filecoin.shapes import circuit_labels
from .memory import memory

MEMORY_NEEDED = 8 << 30  # bytes: the bound for the largest circuit of 2 KiB sectors, that of PoRep
DISK_NEEDED = 1 << 28  # bytes free, for spool and caches
CLOCK_TOLERANCE = 1.0  # seconds between this host's clock and the database's


class Verdict(StrEnum):
    """What a finding means."""

    GOOD = "good"
    WARNING = "warning"  # works, but somebody should know
    BAD = "bad"  # a prover will not work


@dataclass(frozen=True, slots=True)
class Finding:
    """One sentence about one piece."""

    piece: str
    verdict: Verdict
    text: str


def examine(config: Config) -> Iterator[Finding]:
    """All findings, as they are made. A check that fails itself is a bad finding, and the others go on."""
    for piece, check in CHECKS.items():
        try:
            yield from (Finding(piece, verdict, text) for verdict, text in check(config))
        except CuzkError as error:
            yield Finding(piece, Verdict.BAD, f"{error} [{error.code}]")
        except OSError as error:
            yield Finding(piece, Verdict.BAD, str(error))


Findings = Iterator[tuple[Verdict, str]]


def machine(_config: Config) -> Findings:
    """CPUs and memory."""
    found = memory()
    enough = found.available >= MEMORY_NEEDED
    text = f"{cpus()} CPUs, {_gib(found.available)} of {_gib(found.total)} memory available"
    yield (Verdict.GOOD, text) if enough else (Verdict.WARNING, f"{text}; a prover needs {_gib(MEMORY_NEEDED)}")


def devices(config: Config) -> Findings:
    """That JAX has the platform and the devices that are configured."""
    from . import jaxconf
    from .pipeline.devices import discover

    found = jaxconf.configure(config.gpus.platform, config.gpus.cpu_devices, config.cache.directory / "jax")
    per_proof = config.gpus.devices_per_proof
    for device in discover(config.daemon.prover, found, config.gpus.devices, per_proof=per_proof):
        own = device.info.memory_total_bytes
        memory = "its memory is the host's" if own is None else f"{_gib(own)} of its own memory"
        yield Verdict.GOOD, f"device {device.ordinal}: {device.info.name} ({device.info.platform}), {memory}"


def keys(config: Config) -> Findings:
    """That there are keys, and what must be known of them. The points are `keys check`'s."""
    from .groth16.store import KeyStore

    known = circuit_labels()
    entries = KeyStore(config.srs.param_cache).entries()
    if not entries:
        yield Verdict.BAD, f"none in {config.srs.param_cache}: `cuzk keys setup` makes local ones"
    for entry in entries:
        label = known.get(entry.name, f"unknown circuit {entry.name}")
        word = "changed since its check" if entry.changed else "checked" if entry.digest else "not checked"
        said = [label, _gib(entry.size), word if word == "checked" else f"{word}: `cuzk keys check`"]
        good = word == "checked" and not entry.warning and entry.name in known
        yield Verdict.GOOD if good else Verdict.WARNING, ", ".join([*said, *filter(None, [entry.warning])])


def folders(config: Config) -> Findings:
    """That the spool and the cache can be written, and have room."""
    for name, folder in (("spool", config.daemon.spool), ("cache", config.cache.directory)):
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if not os.access(folder, os.W_OK | os.X_OK):
            yield Verdict.BAD, f"{name} {folder} cannot be written"
        elif free < DISK_NEEDED:
            yield Verdict.BAD, f"{name} {folder} has {_gib(free)} free, {_gib(DISK_NEEDED)} are needed"
        else:
            yield Verdict.GOOD, f"{name} {folder}, {_gib(free)} free"


def database(config: Config) -> Findings:
    """That the database answers, is cuzk's, and its clock is near ours; and how the provers on it do."""
    from .journal.client import Client

    client = Client(config.daemon.database_url)
    try:
        fleet = client.fleet()
    finally:
        client.close()
    apart = abs(time.time() - fleet.now_us / 1e6)
    near = apart <= CLOCK_TOLERANCE
    yield Verdict.GOOD if near else Verdict.WARNING, f"answers; its clock and ours are {apart:.1f} s apart"
    for session in fleet.sessions:
        age = session.heartbeat_age
        late = fleet.has_lost_contact(session)
        beat = "no heartbeat yet" if age is None else f"last heartbeat {age:.0f} s ago"
        yield Verdict.WARNING if late else Verdict.GOOD, f"prover {session.prover}: {session.state}, {beat}"


CHECKS: dict[str, Callable[[Config], Findings]] = {
    "machine": machine, "devices": devices, "keys": keys, "folders": folders, "database": database,
}  # fmt: skip


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 1 << 30 else f"{size / 2**20:.0f} MiB"

"""Local keys of a circuit that has none, made when they are first needed: a process of its own, seen as a holding.

For test stacks (`srs.make_missing`): the keys of SHA-256 circuits take minutes, so nobody waits for them at the start.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence

from ..errors import CuzkError
from ..filecoin.shapes import CircuitShape
from ..groth16.making import OTHERS_MAKE, is_being_made, wait_until_made
from ..groth16.store import KeyStore
from ..stack.processes import spawn
from ..states import Holding
from .kinds import Report, phase

_HERE, _ELSEWHERE = "being made", "being made by another process"
_PERCENT = re.compile(rb"(\d+)%")


class KeyNotMade(CuzkError):
    """The process that makes the local keys of a circuit failed."""

    code = "key_not_made"
    retryable = True


def make_local_key(keys: KeyStore, shape: CircuitShape, report: Report) -> None:
    """Make the key of `shape`, with fresh scalars that nobody keeps. Raises KeyNotMade with what the process said.

    When another process makes it at the same time, that is waited for, and its key is the one. The process ends when
    the calling thread does.
    """
    words = ["keys", "setup", str(shape.kind), "--size", shape.sector.name, "--out", str(keys.directory)]
    command = [sys.executable, "-m", "prover", *words]
    name, path = f"key:{shape.key_name}@setup", keys.path(shape.key_name, "params")

    def detail(what: str, **more: object) -> dict[str, object]:
        return {"name": f"{shape.label}, local keys {what}", "local": True, **more}

    def tell(what: str, **more: object) -> None:
        report(name, Holding.LOADING, detail(what, **more))

    elsewhere = is_being_made(keys.directory, shape.key_name)
    with phase(report, name, Holding.LOADING, detail(_ELSEWHERE if elsewhere else _HERE)) as say:
        wait_until_made(keys.directory, shape.key_name)
        if not path.exists():
            status, said = _run(command, lambda share: tell(_HERE, progress=share), lambda: tell(_ELSEWHERE))
            if status and not path.exists():
                raise KeyNotMade(f"{shape.label}: {said or f'exit status {status}'}")
        say(detail("made", bytes=keys.find(shape.key_name).size))


def _run(
    command: Sequence[str], progress: Callable[[float], object], waits: Callable[[], object] = lambda: None
) -> tuple[int, str]:
    """The exit status of a command, and the end of what it said. `progress` gets each new percentage in that; `waits`
    is called when it waits for another maker."""
    said: deque[bytes] = deque(maxlen=5)
    last = b""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as lines:
        with os.fdopen(writing, "wb") as log:
            process = spawn(command, log=log, out=subprocess.DEVNULL)
        for line in lines:
            said.append(line.strip())
            found = _PERCENT.search(line)
            if found and found[1] != last:
                last = found[1]
                progress(int(last) / 100)
            elif OTHERS_MAKE.encode() in line:
                waits()
    return process.wait(), b" ".join(said).decode(errors="replace")[-500:]

"""The prover's command line with two additions at its borders, for tests: `python -m tests.e2e.observed FOLDER ARG...`

* FOLDER/truth.jsonl gets a line for each Observation: what devices and workers did in truth, recorded at the device
  locks and in the workers, outside the tracker. Times are of the machine's monotonic clock, as in the event log.
* Where FOLDER/gates is a folder, steps wait at gates: `finish-P3` stands before the tail of partition 3, `start-P4`
  after the device phase of partition 4, while the device is still held. The step makes the file NAME.here when it
  arrives and goes on once a file NAME.open is there. Only the gates that FOLDER/gates/wanted lists exist.

Everything else is the product: real keys, real proofs, real threads.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from prover import cli, daemon
from prover.filecoin.post import PostPartition
from prover.pipeline.devices import Device, Observation, discover
from prover.pipeline.kinds import AnyKind

LOOK_S = 0.02


class Recorder:
    """Appends observations to a file, a line each."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        self._file = path.open("a")

    def __call__(self, observation: Observation) -> None:
        with self._lock:
            self._file.write(json.dumps(asdict(observation)) + "\n")
            self._file.flush()


class GatedKind:
    """A kind whose steps wait at gates; what they compute is the real kind's."""

    def __init__(self, kind: AnyKind, gates: Path) -> None:
        self._kind = kind
        self._gates = gates
        self._wanted = set((gates / "wanted").read_text().split())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kind, name)

    def start(self, work: PostPartition, synthesized: Any, device: Device) -> tuple[PostPartition, Any]:
        pending = self._kind.start(work, synthesized, device)
        self._pass(f"start-P{work.index}")
        return work, pending

    def finish(self, pending: tuple[PostPartition, Any]) -> bytes:
        work, inner = pending
        self._pass(f"finish-P{work.index}")
        return self._kind.finish(inner)

    def _pass(self, name: str) -> None:
        if name not in self._wanted:
            return
        (self._gates / f"{name}.here").touch()
        while not (self._gates / f"{name}.open").exists():
            time.sleep(LOOK_S)


def main() -> int:
    folder = Path(sys.argv[1])
    daemon.discover = partial(discover, observer=Recorder(folder / "truth.jsonl"))
    gates, make = folder / "gates", daemon.make_kinds
    if gates.is_dir():
        daemon.make_kinds = lambda *args: {name: GatedKind(kind, gates) for name, kind in make(*args).items()}
    return cli.main(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())

"""A prover's process, the requests it is given, and the folder of keys and caches that all tests of a run share."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prover.filecoin.partitions import public_inputs
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import ProofKind, post_shape
from prover.groth16.store import KeyStore
from prover.groth16.verifier import PreparedKey
from prover.pipeline.devices import Observation
from prover.stack.roles import DAEMON
from tests.postgres import ROOT, Database

DATA = ROOT / "tests/data"
DEADLINE = DATA / "deadline/request.json"
WINDOW = DATA / "2k/requests/window-post.json"
PATIENCE_S = 240.0  # after this a test has failed; nothing is timed
PATIENCE_MS = 1000 * PATIENCE_S


@dataclass
class Shared:
    """Keys and caches. Keys are made when a test first needs them."""

    folder: Path

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def environment(self) -> dict[str, str]:
        """For every process of the product: its keys, its caches."""
        return os.environ | {
            "XDG_CACHE_HOME": str(self.folder / "cache"), "FIL_PROOFS_PARAMETER_CACHE": str(self.keys),
        }  # fmt: skip

    def cuzk(self, *arguments: Any, database: Database | None = None) -> str:
        """Run `cuzk ARGUMENTS`; its standard output. It must succeed."""
        url = {} if database is None else {"DATABASE_URL": database.url(DAEMON)}
        command = [sys.executable, "-m", "prover", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=ROOT, env=self.environment | url, capture_output=True, text=True, timeout=PATIENCE_S
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def sample(self, kind: str, folder: Path, *more: Any) -> Path:
        """A request over sectors that nobody has proved before."""
        path = folder / "sample.json"
        self.cuzk("sample", kind, "--seed", secrets.randbelow(1 << 32), *more, "--out", path)
        return path

    def need(self, kind: ProofKind) -> None:
        """The keys of 2 KiB sectors of a kind."""
        if not (self.keys / f"{post_shape(kind, 2048).key_name}.params").exists():
            self.cuzk("keys", "setup", kind, "--out", self.keys)


class Prover:
    """`cuzk daemon`, observed."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path) -> None:
        self.process = process
        self.folder = folder

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def truth(self) -> list[Observation]:
        """What devices and workers did, in the order in which it was recorded."""
        path = self.folder / "truth.jsonl"
        return [Observation(**json.loads(line)) for line in path.read_text().splitlines()]

    def reached(self, gate: str) -> bool:
        """Whether a step waits, or has waited, at a gate."""
        return (self.folder / f"gates/{gate}.here").exists()

    def open(self, gate: str) -> None:
        """Let the step go on."""
        (self.folder / f"gates/{gate}.open").touch()

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)


@contextmanager
def proving(
    database: Database, shared: Shared, folder: Path, *settings: str, gates: tuple[str, ...] = ()
) -> Iterator[Prover]:
    """Run the daemon on a database, as the prover's role. It must end well when it is asked to, if it still runs."""
    folder.mkdir(exist_ok=True)
    if gates:
        (folder / "gates").mkdir()
        (folder / "gates/wanted").write_text(" ".join(gates))
    own = ("daemon.prover=alpha", f"daemon.spool={folder / 'spool'}", "gpus.cpu_devices=2")
    flags = [word for setting in (*own, *settings) for word in ("--set", setting)]
    command = [sys.executable, "-m", "tests.e2e.observed", str(folder), "daemon", *flags]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            command, cwd=ROOT, env=shared.environment | {"DATABASE_URL": database.url(DAEMON)}, stderr=log, stdout=log
        )  # fmt: skip
    prover = Prover(process, folder)
    try:
        yield prover
        if process.poll() is None:
            assert prover.stop() == 0, prover.log
    except BaseException:
        print(prover.log[-8000:])
        raise
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def await_true(question: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Ask until the answer is yes."""
    until = time.monotonic() + patience_s
    while not question():
        assert time.monotonic() < until, "it never came true"
        time.sleep(0.05)


def delivered(database: Database, job: str) -> bytes:
    """The proof that the database delivers for a job."""
    with database.connect() as connection:
        ((proof,),) = connection.execute("SELECT proof FROM delivery WHERE job_id = %s", [job]).fetchall()
    return bytes(proof)


def submit(shared: Shared, database: Database, path: Path) -> str:
    """`cuzk submit FILE`: the job's id."""
    return shared.cuzk("submit", path, database=database).strip()


def refused(shared: Shared, path: Path, proof: bytes) -> list[int]:
    """The partitions whose proof does not verify, by the request's own inputs, the key's vk, and pairing alone."""
    request = parse_json(path.read_bytes())
    key = PreparedKey(KeyStore(shared.keys).verifying_key(request.shape.key_name))
    return key.verify_partitions(public_inputs(request), proof)

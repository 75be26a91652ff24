"""One circuit's proofs in a process of its own, for bench/proof.py: python -m bench.prove KIND STEP OUT CACHE.

STEP `setup` times a set-up (and keeps the key in OUT), `compile` loads the key and compiles, `session` then proves each
time it reads a line. Answers are lines of JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import psutil

from bench import peer
from prover import jaxconf
from prover.circuits.synthesis import Circuit
from prover.filecoin.post import PostPartition, partitions
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import CACHE_VERSION, PostShape, ProofKind, post_shape
from prover.groth16.prover import TABLE_BYTES, ProvingKey, start
from prover.groth16.setup import setup
from prover.groth16.store import KeyStore
from prover.groth16.verifier import PreparedKey

T = TypeVar("T")
REQUESTS = Path(__file__).resolve().parents[1] / "tests" / "data" / "2k" / "requests"
SECTOR_SIZE = 2048


def shape_of(kind: str) -> PostShape:
    return post_shape(ProofKind(kind), SECTOR_SIZE)


def key_name(kind: str) -> str:
    return f"v{CACHE_VERSION}-{shape_of(kind).cache_name}"


def params_path(out: Path, kind: str) -> Path:
    return KeyStore(out).path(key_name(kind), "params")


def dump_path(out: Path, kind: str) -> Path:
    """The recorded circuit and its witness for the peer."""
    return out / f"{kind}.circuit"


def timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


class Bench:
    """A circuit, the partition of the sample request, and the key in OUT."""

    def __init__(self, kind: str, out: Path) -> None:
        self.kind, self.out = kind, out
        self.circuit = Circuit.load(shape_of(kind), out)
        self.partition: PostPartition = partitions(parse_json((REQUESTS / f"{kind}.json").read_bytes()))[0]
        self.store = KeyStore(out)

    def setup(self) -> dict[str, Any]:
        """Time a set-up with fresh scalars; keep the first key, and the peer's input."""
        cpu = time.process_time()
        seconds, parameters = timed(lambda: setup(self.circuit.matrices))
        cpu = time.process_time() - cpu
        if not params_path(self.out, self.kind).exists():
            self.store.add(key_name(self.kind), parameters, SECTOR_SIZE, known_scalars=False)
        assignment = self.circuit.synthesize(self.partition.instance)
        arrays = {"coefs": self.circuit.matrices.coefs, "inputs": assignment.inputs, "aux": assignment.aux}
        for letter in peer.MATRICES:
            matrix = getattr(self.circuit.matrices, letter.lower())
            arrays |= {f"{letter}_indptr": matrix.indptr, f"{letter}_col": matrix.col, f"{letter}_coef": matrix.coef}
        peer.dump(arrays, dump_path(self.out, self.kind))
        return {"setup_s": seconds, "setup_cpu_s": cpu}

    def load(self) -> dict[str, Any]:
        """Map the key, make it ready, compile."""
        open_s, parameters = timed(lambda: self.store.open(key_name(self.kind)))
        key_s, self.key = timed(lambda: ProvingKey(parameters, self.circuit.matrices))
        compile_s, _ = timed(self._compile)
        self.prepared = PreparedKey(parameters.vk)
        return {"open_s": open_s, "key_s": key_s, "compile_s": compile_s, "tables_mib": self.key.nbytes / 2**20}

    def _compile(self) -> None:
        self.circuit.compile()
        self.key.warm_up()

    def prove(self) -> dict[str, Any]:
        """One whole proof, verified."""
        parts: dict[str, float] = {}
        cpu = time.process_time()
        parts["synthesis"], assignment = timed(lambda: self.circuit.synthesize(self.partition.instance, 2))
        parts["device"], pending = timed(lambda: start(self.key, assignment, timer=stages(parts)))
        parts["tail"], proof = timed(pending.finish)
        cpu = time.process_time() - cpu
        verify_s, good = timed(lambda: self.prepared.verify(self.partition.public_inputs, proof))
        if not good:
            raise RuntimeError("the proof is wrong")
        whole = parts["synthesis"] + parts["device"] + parts["tail"]
        return {"whole_s": whole, "cpu_s": cpu, "verify_s": verify_s, "parts": parts}

    def tabulate(self) -> dict[str, Any]:
        """Make the tables that a daemon makes for a key it uses a lot."""
        seconds, _ = timed(lambda: self.key.tabulate(TABLE_BYTES, threads=2))
        return {"tabulate_s": seconds, "tables_mib": self.key.nbytes / 2**20}

    def memory(self) -> dict[str, Any]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"rss_mib": psutil.Process().memory_info().rss / 2**20, "peak_rss_mib": peak}


def stages(parts: dict[str, float]) -> Callable[[str, int, int], None]:
    def add(stage: str, began: int, ended: int) -> None:
        parts[f"[{stage}]"] = (ended - began) / 1e9

    return add


def main() -> None:
    kind, step, out, cache = sys.argv[1:5]
    jaxconf.configure("cpu", cache_dir=cache)
    bench = Bench(kind, Path(out))
    if step == "session":
        answers = {"load": bench.load, "prove": bench.prove, "tabulate": bench.tabulate, "memory": bench.memory}
        for line in sys.stdin:
            print(json.dumps(answers[line.strip()]()), flush=True)
    else:
        print(json.dumps(bench.setup() if step == "setup" else bench.load()))


if __name__ == "__main__":
    main()

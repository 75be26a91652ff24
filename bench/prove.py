"""One circuit's proofs in a process of its own: python -m bench.prove KIND STEP OUT CACHE [PLATFORM].

STEP `setup` times a set-up (and keeps the key in OUT), `dump` writes the peer's input, `load` loads the key and
compiles, `session` then does what it reads, a step a line. Answers are lines of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import jax

from bench import peer
from prover import jaxconf
from prover.circuits.synthesis import Circuit, Instance
from prover.filecoin.partitions import Partition, partitions
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import CircuitShape, ProofKind, circuit_shape
from prover.groth16.prover import ProvingKey, start
from prover.groth16.setup import setup
from prover.groth16.store import KeyStore
from prover.groth16.tables import TableStore
from prover.groth16.verifier import PreparedKey
from prover.pipeline.device_memory import bound_chunks
from prover.pipeline.devices import discover

T = TypeVar("T")
REQUESTS = Path(__file__).resolve().parents[1] / "tests" / "data" / "2k" / "requests"
SECTOR_SIZE = 2048


def shape_of(kind: str) -> CircuitShape:
    return circuit_shape(ProofKind(kind), SECTOR_SIZE)


def params_path(out: Path, kind: str) -> Path:
    return KeyStore(out).path(shape_of(kind).key_name, "params")


def dump_path(out: Path, kind: str) -> Path:
    """The recorded circuit and its witness for the peer."""
    return out / f"{kind}.circuit"


def timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def of_status(field: str) -> float:
    """VmRSS, VmHWM or RssAnon of this process in MiB; the first two count what is mapped of key files."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(field + ":"))


class Bench:
    """A circuit, an instance of it with its public inputs, and the key in OUT."""

    def __init__(self, shape: CircuitShape, out: Path, device: jax.Device) -> None:
        self.idle_mib = of_status("VmRSS")
        self.shape, self.out, self.device = shape, out, device
        # the peer has two threads as well; beside a GPU the whole host works
        self.threads = 2 if device.platform == "cpu" else max(2, os.cpu_count() or 2)
        self.store = KeyStore(out)
        self.circuit = Circuit.load(shape, out)
        self.instance, self.public_inputs = self.made_instance()

    def made_instance(self) -> tuple[Instance, tuple[int, ...]]:
        """The first partition of the sample request."""
        request = parse_json((REQUESTS / f"{self.shape.kind}.json").read_bytes())
        partition: Partition = partitions(request)[0]
        return partition.instance, partition.public_inputs

    def setup(self) -> dict[str, Any]:
        """Time a set-up with fresh scalars, on two threads (or CUZK_BENCH_THREADS); keep the first key."""
        cpu, threads = time.process_time(), int(os.environ.get("CUZK_BENCH_THREADS", "2"))
        seconds, parameters = timed(lambda: setup(self.circuit.matrices, threads=threads))
        cpu = time.process_time() - cpu
        if not self.store.path(self.shape.key_name, "params").exists():
            self.store.add(self.shape.key_name, parameters, self.shape.sector.size, known_scalars=False)
        return {"setup_s": seconds, "setup_cpu_s": cpu, "setup_peak_mib": of_status("VmHWM")}

    def dump(self) -> dict[str, Any]:
        """Write the peer's input."""
        assignment = self.circuit.synthesize(self.instance)
        arrays = {"coefs": self.circuit.matrices.coefs, "inputs": assignment.inputs, "aux": assignment.aux}
        for letter in peer.MATRICES:
            matrix = getattr(self.circuit.matrices, letter.lower())
            arrays |= {f"{letter}_indptr": matrix.indptr, f"{letter}_col": matrix.col, f"{letter}_coef": matrix.coef}
        peer.dump(arrays, dump_path(self.out, str(self.shape.kind)))
        return {}

    def load(self) -> dict[str, Any]:
        """Map the key, make it ready, compile. Its bases are mapped from a file, which is made when it is absent."""
        matrices, bases = self.circuit.matrices, TableStore(self.out / "tables", self.threads)
        open_s, parameters = timed(lambda: self.store.open(self.shape.key_name))
        key_s, self.key = timed(
            lambda: ProvingKey(parameters, matrices, self.device, threads=self.threads, store=bases)
        )
        compile_s, _ = timed(self._compile)
        self.prepared = PreparedKey(parameters.vk)
        return {
            "device": self.device.device_kind, "constraints": matrices.num_constraints, "open_s": open_s,
            "key_s": key_s, "compile_s": compile_s, "tables_mib": self.key.nbytes / 2**20,
        }  # fmt: skip

    def _compile(self) -> None:
        self.circuit.compile()
        self.key.warm_up()

    def prove(self) -> dict[str, Any]:
        """One whole proof, verified."""
        parts: dict[str, float] = {}
        cpu = time.process_time()
        parts["synthesis"], assignment = timed(lambda: self.circuit.synthesize(self.instance, self.threads))
        parts["device"], pending = timed(lambda: start(self.key, assignment, timer=stages(parts)))
        parts["tail"], proof = timed(pending.finish)
        cpu = time.process_time() - cpu
        verify_s, good = timed(lambda: self.prepared.verify(self.public_inputs, proof))
        if not good:
            raise RuntimeError("the proof is wrong")
        whole = parts["synthesis"] + parts["device"] + parts["tail"]
        return {"whole_s": whole, "cpu_s": cpu, "verify_s": verify_s, "parts": parts}

    def tabulate(self, mib: str) -> dict[str, Any]:
        """Make (or map, when they are there) the tables that so much memory holds, bases included."""
        seconds, _ = timed(lambda: self.key.tabulate(int(mib) << 20, threads=self.threads))
        return {"tabulate_s": seconds, "tables_mib": self.key.nbytes / 2**20}

    def memory(self) -> dict[str, Any]:
        """Of the process, and of the device where that has memory of its own (CPU devices have none), in MiB."""
        fields = {"rss_mib": "VmRSS", "peak_mib": "VmHWM", "anonymous_mib": "RssAnon"}
        found = {"idle_mib": self.idle_mib} | {name: of_status(field) for name, field in fields.items()}
        stats = self.device.memory_stats() or {}
        peak = stats.get("peak_bytes_in_use")
        return found | ({} if peak is None else {"device_peak_mib": peak / 2**20})


def stages(parts: dict[str, float]) -> Callable[[str, int, int], None]:
    def add(stage: str, began: int, ended: int) -> None:
        parts[f"[{stage}]"] = (ended - began) / 1e9

    return add


def answer(bench: Bench, step: str) -> None:
    """Do one step, or those that standard input names."""
    known = ("setup", "dump", "load", "prove", "tabulate", "memory")
    for line in sys.stdin if step == "session" else [step]:
        name, *arguments = line.split()
        if name not in known:
            sys.exit(f"no step {name!r}; there are {', '.join(known)}")
        print(json.dumps(getattr(bench, name)(*arguments)), flush=True)


def main() -> None:
    kind, step, out, cache, *platform = sys.argv[1:]
    found = jaxconf.configure(*(platform or ["cpu"]), cache_dir=cache)
    devices = discover("bench", found, [0])
    bound_chunks(devices, None, None)
    answer(Bench(shape_of(kind), Path(out), devices[0].handle), step)


if __name__ == "__main__":
    main()

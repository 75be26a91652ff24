"""The engine on real window proofs: pipeline against the sequential loop, split against synchronous, busy time, truth.

One device. The device phase is pinned to one core, synthesis and tail to the other (where there are two), so that the
pipeline's bound is known: with s, g, t the times of synthesis, device phase and tail of the sequential loop, at best a
proof every max(g, s + t) instead of every s + g + t. Ratios within one run; times are context.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.prove import REQUESTS, params_path
from prover import jaxconf
from prover.filecoin.request import parse_json
from prover.filecoin.shapes import ProofKind
from prover.groth16.store import KeyStore
from prover.pipeline.devices import Device, Observation, discover
from prover.pipeline.engine import Engine, EngineOptions
from prover.pipeline.filecoin import FilecoinKind, KindSettings
from prover.pipeline.kinds import Report
from prover.pipeline.sources import ClaimedJob, JobInfo
from prover.pipeline.tracker import StatusTracker
from prover.states import Entity, Refused, Transition

OUT = Path(__file__).resolve().parent / "out"
KIND = "window-post"
PAIRS = int(os.environ.get("BENCH_PAIRS", "7"))
PROOFS = int(os.environ.get("BENCH_PROOFS", "8"))  # in each run
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))  # of the pipeline against its bound
EDGE_NS = 1_000_000  # what tracker and truth may differ in at the ends of a phase


class Pinned(FilecoinKind):
    """The real kind; each step's thread stays on its core."""

    def __init__(self, settings: KindSettings) -> None:
        super().__init__(ProofKind.WINDOW_POST, settings)
        cores = sorted(os.sched_getaffinity(0))
        self._device_core, self._other_core = {cores[0]}, {cores[-1]}

    def synthesize(self, work: Any, report: Report) -> Any:
        os.sched_setaffinity(0, self._other_core)
        return super().synthesize(work, report)

    def start(self, work: Any, synthesized: Any, device: Device) -> Any:
        os.sched_setaffinity(0, self._device_core)
        return super().start(work, synthesized, device)

    def finish(self, pending: Any) -> bytes:
        os.sched_setaffinity(0, self._other_core)
        return super().finish(pending)


class Jobs:
    """As many jobs of one window partition as a run proves; also where their results go."""

    def __init__(self, count: int) -> None:
        request = parse_json((REQUESTS / f"{KIND}.json").read_bytes()).canonical
        self._jobs = [ClaimedJob(JobInfo(f"job{n}", KIND, number=n), request) for n in range(count)]
        self._left = count
        self.done = threading.Event()

    def claim(self, limit: int, min_priority: int = 0) -> Sequence[ClaimedJob]:
        if min_priority:
            return []
        taken, self._jobs = self._jobs[:limit], self._jobs[limit:]
        return taken

    def claim_oldest(self, max_priority: int, waited_s: float) -> Sequence[ClaimedJob]:
        return []

    def depth(self) -> int | None:
        return len(self._jobs)

    def put_proof(self, job: str, partition: int, attempt_no: int, proof: bytes) -> None:
        pass

    def put_delivery(self, job: str, proof: bytes) -> None:
        pass

    def sink(self, said: Transition | Refused) -> None:
        if isinstance(said, Refused):
            sys.exit(f"anomaly: {said}")
        if said.entity is Entity.JOB and said.new in ("done", "failed", "cancelled"):
            if said.new != "done":
                sys.exit(f"a job {said.new}: {said.detail}")
            self._left -= 1
            if not self._left:
                self.done.set()


@dataclass(frozen=True)
class Run:
    """What one run was like; times in seconds."""

    wall: float
    phases: dict[str, float]  # mean of synthesis, device, tail
    busy: float  # share of the time between the first and last device phase in which the device worked
    tracking: float  # share of the wall time
    per_call_us: float
    false_ms: float  # how long, in all, tracker and truth disagreed on who is busy, beyond the edges


def run(kind: Pinned, device: Device, truth: list[Observation], proofs: int, **options: bool) -> Run:
    """Prove `proofs` partitions with a fresh engine."""
    jobs, log = Jobs(proofs), list[Transition]()
    truth.clear()
    tracker = StatusTracker("bench", "bench", sinks=[jobs.sink, log.append])  # type: ignore[list-item]
    engine = Engine(tracker, [device], {KIND: kind}, jobs, jobs, EngineOptions(**options))
    began = time.perf_counter()
    engine.start({})
    jobs.done.wait()
    wall = time.perf_counter() - began
    engine.stop()
    times = [_times(log, f"job{n}:0:1") for n in range(proofs)]
    spans = [(t["device"], _first(t, "finalizing", "finishing")) for t in times]
    window = max(end for _, end in spans) - min(start for start, _ in spans)
    return Run(
        wall, _phases(times), sum(end - start for start, end in spans) / window, tracker.spent_ns / 1e9 / wall,
        tracker.spent_ns / 1e3 / tracker.calls, _disagreement(times, truth) / 1e6,
    )  # fmt: skip


def _times(log: list[Transition], attempt: str) -> dict[str, int]:
    return {t.new: t.mono_ns for t in log if t.entity_id == attempt} | {"id": attempt}  # type: ignore[dict-item]


def _first(times: dict[str, int], *states: str) -> int:
    return next(times[state] for state in states if state in times)


def _phases(times: list[dict[str, int]]) -> dict[str, float]:
    def mean(start: tuple[str, ...], end: tuple[str, ...]) -> float:
        return statistics.mean(_first(t, *end) - _first(t, *start) for t in times) / 1e9

    tail = ("finalizing", "finishing")
    return {
        "synthesis": mean(("synthesizing",), ("ready",)),
        "device": mean(("device",), tail),
        "tail": mean(tail, ("done",)),
    }


def _disagreement(times: list[dict[str, int]], truth: list[Observation]) -> float:
    """Nanoseconds by which a worker's front begins or ends apart from what the worker did, less the edges."""
    busy = {o.attempt: o.mono_ns for o in truth if o.what == "worker_busy"}
    free = {o.attempt: o.mono_ns for o in truth if o.what == "worker_free"}
    apart = 0.0
    for t in times:
        name, end = str(t["id"]), _first(t, "finalizing", "done")
        for gap in (abs(t["claimed"] - busy[name]), abs(free[name] - end)):
            apart += max(0, gap - EDGE_NS)
    return apart


def main() -> None:
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cuzk-bench-") as cache:
        if not params_path(OUT, KIND).exists():
            subprocess.run([sys.executable, "-m", "bench.prove", KIND, "setup", str(OUT), cache], check=True)
        truth: list[Observation] = []
        device = discover("bench", jaxconf.configure("cpu", 1, Path(cache) / "jax"), observer=truth.append)[0]
        settings = KindSettings(KeyStore(OUT), Path(cache), table_bytes=0, device_threads=1, synthesis_threads=1)
        kind = Pinned(settings)
        run(kind, device, truth, 2)  # loads the key and compiles
        _pipeline(kind, device, truth)
        _split(kind, device, truth)


def _pipeline(kind: Pinned, device: Device, truth: list[Observation]) -> None:
    """Rounds of both, so that a machine whose speed drifts is judged by its own minute."""
    rounds = [_round(kind, device, truth) for _ in range(ROUNDS)]
    print(f"pipeline over its bound: {statistics.median(rounds):.2f} (median), {min(rounds):.2f} to {max(rounds):.2f}")


def _round(kind: Pinned, device: Device, truth: list[Observation]) -> float:
    """How much of the bound the pipeline reaches."""
    sequential = run(kind, device, truth, PROOFS // 2, pipeline=False)
    pipelined = run(kind, device, truth, 2 * PROOFS)
    s, g, t = sequential.phases.values()
    alone, each = sequential.wall / (PROOFS // 2), pipelined.wall / (2 * PROOFS)
    bound, gain = (s + g + t) / max(g, s + t), alone / each
    print(f"\nsequential loop: {alone:.2f} s a proof: synthesis {s:.3f}, device {g:.3f}, tail {t:.3f}")
    print(f"pipeline: {each:.2f} s a proof, {gain:.2f}x of at most {bound:.2f}x: {gain / bound:.2f}")
    print(f"device phases are {pipelined.phases['device'] / g:.2f}x as long as in the sequential loop")
    print(f"the device was in a device phase {pipelined.busy:.1%} of the time")
    print(f"tracking: {pipelined.tracking:.3%} of the time, {pipelined.per_call_us:.0f} us a move")
    print(f"tracker and truth apart for {pipelined.false_ms:.1f} ms beyond edges of {EDGE_NS / 1e6:.0f} ms")
    return gain / bound


def _split(kind: Pinned, device: Device, truth: list[Observation]) -> None:
    """Interleaved pairs; the interval is that of the pairs' own ratios, least to greatest."""
    ratios = []
    for pair in range(PAIRS):
        order = (True, False) if pair % 2 else (False, True)
        walls = {split: run(kind, device, truth, PROOFS, split=split).wall for split in order}
        ratios.append(walls[False] / walls[True])
        print(f"pair {pair}: synchronous {walls[False]:.2f} s, split {walls[True]:.2f} s")
    median = statistics.median(ratios)
    print(f"split over synchronous: {median:.3f}x (median), {min(ratios):.3f}x to {max(ratios):.3f}x in {PAIRS} pairs")


if __name__ == "__main__":
    main()

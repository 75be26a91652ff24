"""GetMetrics: the original's metrics by exactly its names, for who scrapes them already.

Written by hand: prometheus-client adds `_total` to every counter, and one of these names would collide then. Sums are
over all jobs of the process, so that they never fall.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prover.filecoin.shapes import ProofKind
from prover.states import JOB_LEASED, Entity, Job

from .live import Live


def original_metrics(live: Live) -> str:
    """Prometheus' text format."""
    return "\n".join(_lines(live)) + "\n"


def _lines(live: Live) -> Iterator[str]:
    state, meters = live.state(), live.meters
    done, failed = meters.ended(Job.DONE), meters.ended(Job.FAILED)
    running = sum(view.state in JOB_LEASED for view in state.views[Entity.JOB].values())
    yield from _one("cuzk_proofs_completed_total", "counter", "Proofs completed.", sum(done.values()))
    yield from _one("cuzk_proofs_failed_total", "counter", "Proofs failed.", sum(failed.values()))
    yield from _one("cuzk_uptime_seconds", "gauge", "Seconds since the start.", int(live.uptime_s))
    depth = sum(live.depths().values())
    yield from _one("cuzk_queue_depth", "gauge", "Proofs that wait in the queue.", depth)
    yield from _by_kind("cuzk_proofs_completed", "counter", "Proofs completed, by kind.", done)
    yield from _by_kind("cuzk_proofs_failed", "counter", "Proofs failed, by kind.", failed)
    yield from _head("cuzk_proof_duration_seconds", "summary", "From submission to the proof, by kind.")
    for kind in ProofKind:
        label = f'{{proof_kind="{_label(kind)}"}}'
        yield f"cuzk_proof_duration_seconds_count{label} {done.get(kind, 0)}"
        yield f"cuzk_proof_duration_seconds_sum{label} {meters.proof_seconds[kind]:.3f}"
    yield from _one("cuzk_running_jobs", "gauge", "Proofs in progress.", running)
    yield from _one("cuzk_gpu_workers", "gauge", "Workers of all devices.", len(state.views[Entity.WORKER]))


def _one(name: str, kind: str, text: str, value: int) -> Iterator[str]:
    yield from _head(name, kind, text)
    yield f"{name} {value}"


def _by_kind(name: str, kind: str, text: str, values: Mapping[str, int]) -> Iterator[str]:
    yield from _head(name, kind, text)
    for proof in ProofKind:
        yield f'{name}{{proof_kind="{_label(proof)}"}} {values.get(proof, 0)}'


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {name} {text}"
    yield f"# TYPE {name} {kind}"


def _label(kind: ProofKind) -> str:
    return kind.value.replace("-", "_")

"""GetStatus: a prover's state in the original daemon's message. One entry a device, one queue for every kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prover.filecoin.circuit_ids import id_of_key
from prover.filecoin.proto import cuzk_pb2 as pb
from prover.filecoin.shapes import ProofKind
from prover.pipeline.devices import Device
from prover.pipeline.keys import KeyRow
from prover.states import FRONT, JOB_LEASED, Attempt, Entity, FleetState, Job, View

from .live import Live


def original_status(live: Live) -> pb.GetStatusResponse:
    """Of this moment."""
    state, budget = live.state(), live.budget()
    return pb.GetStatusResponse(
        gpus=[_gpu(state, device) for device in live.devices],
        loaded_srs=[_key(row) for row in live.keys()],
        queues=list(_queues(live, state)),
        total_proofs_completed=sum(live.meters.ended(Job.DONE).values()),
        total_proofs_failed=sum(live.meters.ended(Job.FAILED).values()),
        uptime_seconds=int(live.uptime_s),
        pinned_memory_bytes=budget.lasting,
        pinned_memory_limit_bytes=budget.total,
    )


def _gpu(state: FleetState, device: Device) -> pb.GPUStatus:
    """With the job that computes on it; else one that a worker of it has claimed."""
    found = pb.GPUStatus(ordinal=device.ordinal, name=device.info.name)
    total, free = device.info.memory_total_bytes, device.free_memory
    found.vram_total_bytes, found.vram_free_bytes = total or 0, free or 0
    job = state.get(Entity.JOB, _current(state, device.info.id) or "")
    found.current_job_id = str(job.detail.get("request_id", ""))
    found.current_proof_kind = str(job.detail.get("kind", ""))
    return found


def _current(state: FleetState, device: str) -> str | None:
    fronts = [
        state.get(Entity.ATTEMPT, attempt)
        for worker, held in state.held.items() if worker.rpartition("/")[0] == device
        for attempt in held
    ]  # fmt: skip
    best = max((view for view in fronts if view.state in FRONT), key=_nearness, default=None)
    return None if best is None else best.job


def _nearness(view: View) -> tuple[bool, int]:
    return view.state == Attempt.DEVICE, view.since_us


def _key(row: KeyRow) -> pb.SRSStatus:
    """One that is loaded (hot), or on its way (warm)."""
    tier = pb.SRSStatus.HOT if row.state == "ready" else pb.SRSStatus.WARM
    name = id_of_key(row.name) or row.name
    return pb.SRSStatus(circuit_id=name, tier=tier, size_bytes=row.nbytes, ref_count=row.refs)


def _queues(live: Live, state: FleetState) -> Iterator[pb.QueueStatus]:
    """`pending` waits in the database for any prover; `in_progress` is this one's."""
    running = Counter(
        view.detail.get("kind") for view in state.views[Entity.JOB].values() if view.state in JOB_LEASED
    )  # fmt: skip
    waiting = live.depths()
    for kind in ProofKind:
        yield pb.QueueStatus(proof_kind=kind, pending=waiting.get(kind, 0), in_progress=running[kind])

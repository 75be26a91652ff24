"""How long GetStatus, GetMetrics, GET /status and GET /metrics take with 1000 jobs in a prover's state.

`python -m bench.service [JOBS [SECONDS]]`. Wanted of both statuses: p95 under 5 ms on an idle prover. Each job has four
partitions; one in ten runs, the others have ended and are still shown, as they are for ten minutes. Callers ask one
after the other over one connection (gRPC) or a new one each time (HTTP), as their clients do.
"""

from __future__ import annotations

import http.client
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc

from bench.live import percentile
from prover.filecoin.shapes import ProofKind
from prover.groth16.store import KeyStore
from prover.pipeline.allocator import DeviceInfo, allocate
from prover.pipeline.devices import Device
from prover.pipeline.sources import JobInfo
from prover.pipeline.tracker import StatusTracker
from prover.service.address import Address
from prover.service.desk import Desk
from prover.service.key_control import KeyControl
from prover.service.live import Live
from prover.service.meters import Meters
from prover.service.options import ServiceOptions
from prover.service.service import Service

PARTITIONS = 4


@dataclass
class NoJournal:
    """What the service asks of a journal, without a database."""

    trouble: str | None = None
    waiting: int = 0
    queued: Mapping[str, int] = field(default_factory=lambda: {"porep-c2": 1000})

    def depths(self) -> Mapping[str, int]:
        return self.queued


def filled(tracker: StatusTracker, jobs: int) -> None:
    """Jobs of all kinds in the tracker's state."""
    infos = [DeviceInfo("bench", n, "device", "cpu", 1 << 34) for n in range(4)]
    slots = allocate(infos, 2)
    tracker.session_starting({"version": "bench"})
    tracker.register_workers(infos, slots)
    for slot in slots:
        tracker.worker_online(slot.id)
    tracker.session_online()
    for n in range(jobs):
        name = f"job-{n}"
        tracker.register_job(JobInfo(name, list(ProofKind)[n % 4], PARTITIONS, request_id=f"porep-1000-{n}"))
        tracker.job_loading(name)
        tracker.job_running(name)
        for partition in range(PARTITIONS):
            _prove(tracker, name, partition, slots[n % len(slots)].id, ended=n % 10 > 0)
        if n % 10:
            tracker.job_assembling(name)
            tracker.job_verifying(name)
            tracker.job_completed(name)


def _prove(tracker: StatusTracker, job: str, partition: int, worker: str, *, ended: bool) -> None:
    key = tracker.new_attempt(job, partition)
    assert key is not None
    tracker.reserved(key)
    tracker.partition_synth_start(key)
    tracker.partition_synth_end(key)
    if ended:
        tracker.partition_gpu_start(key, worker)
        for step in (tracker.device_wait, tracker.device_start, tracker.handoff, tracker.partition_gpu_end):
            step(key)


def timed(call: Callable[[], Any], seconds: float) -> list[float]:
    """Milliseconds of calls, one after the other."""
    found, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        start = time.perf_counter()
        call()
        found.append(1000 * (time.perf_counter() - start))
        time.sleep(0.01)
    return found


def get(address: Address, path: str) -> bytes:
    connection = http.client.HTTPConnection(address.host, address.port, timeout=10)
    connection.request("GET", path)
    return connection.getresponse().read()


def main() -> None:
    jobs, seconds = (int(sys.argv[1]) if len(sys.argv) > 1 else 1000), float(sys.argv[2] if len(sys.argv) > 2 else 5)
    live = Live("bench", "bench", [Device(DeviceInfo("bench", n), None) for n in range(4)], Meters())
    tracker = StatusTracker("session", "bench", sinks=[live.meters.sink])
    live.use(tracker, NoJournal())  # type: ignore[arg-type]
    filled(tracker, jobs)
    with tempfile.TemporaryDirectory() as folder:
        here = Address(host="127.0.0.1")
        desk = Desk("", KeyStore(Path(folder)))
        service = Service(ServiceOptions((here,), here), live, "", KeyControl({}, [], lambda *_, **__: None), desk)
        service.start()
        grpc_at, http_at = service.addresses
        with grpc.insecure_channel(str(grpc_at)) as channel:
            calls: dict[str, Callable[[], Any]] = {
                f"gRPC {name}": partial(channel.unary_unary(f"/cuzk.v1.ProvingEngine/{name}"), b"")
                for name in ("GetStatus", "GetMetrics")
            }
            calls |= {f"GET {path}": lambda path=path: get(http_at, path) for path in ("/status", "/metrics", "/livez")}  # type: ignore[misc]
            print(f"{jobs} jobs of {PARTITIONS} partitions")
            for name, call in calls.items():
                call()
                found = timed(call, seconds)
                print(f"{name:16} p50 {percentile(found, 0.5):6.2f} ms  p95 {percentile(found, 0.95):6.2f} ms  "
                      f"max {max(found):6.2f} ms  ({len(found)})")  # fmt: skip
        service.stop()


if __name__ == "__main__":
    main()

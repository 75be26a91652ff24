"""How long GetStatus, GetMetrics, GET /status and GET /metrics take with 1000 jobs in a prover's state.

`python -m bench.service [JOBS [SECONDS]]`. Wanted of both statuses: p95 under 5 ms on an idle prover. Each job has four
partitions; one in a hundred is being worked on, the others have ended and are kept, as they are for ten minutes. The
callers are another process; they ask one after the other, over one connection (gRPC) or a new one each time (HTTP).
"""

from __future__ import annotations

import http.client
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

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
RUNNING = 100  # one job of so many


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
            _prove(tracker, name, partition, slots[n % len(slots)].id, ended=n % RUNNING > 0)
        if n % RUNNING:
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


def serve(jobs: int) -> None:
    """Print the two addresses, and answer until the standard input ends."""
    live = Live("bench", "bench", [Device(DeviceInfo("bench", n), None) for n in range(4)], Meters())
    tracker = StatusTracker("session", "bench", sinks=[live.meters.sink])
    live.use(tracker, NoJournal())  # type: ignore[arg-type]
    filled(tracker, jobs)
    with tempfile.TemporaryDirectory() as folder:
        here, desk = Address(host="127.0.0.1"), Desk("", KeyStore(Path(folder)))
        service = Service(ServiceOptions((here,), here), live, "", cast(KeyControl, None), desk)
        service.start()
        print(f"ports {' '.join(str(address.port) for address in service.addresses)}", flush=True)
        sys.stdin.read()
        service.stop()


def calls(channel: grpc.Channel, http_at: Address) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What is timed."""
    for name in ("GetStatus", "GetMetrics"):
        yield f"gRPC {name}", partial(channel.unary_unary(f"/cuzk.v1.ProvingEngine/{name}"), b"")
    for path in ("/status", "/metrics", "/livez"):
        yield f"GET {path}", partial(get, http_at, path)


def main() -> None:
    jobs, seconds = (int(sys.argv[1]) if len(sys.argv) > 1 else 1000), float(sys.argv[2] if len(sys.argv) > 2 else 5)
    command = [sys.executable, "-c", f"from bench.service import serve; serve({jobs})"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None and server.stdin is not None
        ports = next(line.split()[1:] for line in server.stdout if line.startswith("ports "))
        grpc_at, http_at = (Address(host="127.0.0.1", port=int(port)) for port in ports)
        print(f"{jobs} jobs of {PARTITIONS} partitions")
        with grpc.insecure_channel(str(grpc_at)) as channel:
            for name, call in calls(channel, http_at):
                call()
                found = timed(call, seconds)
                p50, p95 = percentile(found, 0.5), percentile(found, 0.95)
                print(f"{name:16} p50 {p50:6.2f} ms  p95 {p95:6.2f} ms  max {max(found):6.2f} ms  ({len(found)})")
        server.stdin.close()


if __name__ == "__main__":
    main()

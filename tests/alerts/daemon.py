"""A small server that answers GET /status as an original daemon does: what a test says, in turn or for good."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Original:
    """`answer` is an object, bytes, a status, or a function of the handler."""

    url: str = ""
    answer: Any = None
    asked: list[str] = field(default_factory=list)


@contextmanager
def original() -> Iterator[Original]:
    daemon = Original(answer=status())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            daemon.asked.append(self.path)
            answer = daemon.answer
            if callable(answer):
                answer(self)
                return
            code, body = (answer, b'{"error":"x"}') if isinstance(answer, int) else (200, answer)
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    daemon.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield daemon
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def status(uptime: float = 1000.0, pipelines: Any = (), workers: Any = None, **more: Any) -> dict[str, Any]:
    """An answer of the original's shape, with all its fields."""
    return {
        "uptime_secs": uptime,
        "memory": {"total_bytes": 270_000_000_000, "used_bytes": 9_000_000_000, "available_bytes": 261_000_000_000},
        "synthesis": {"max_concurrent": 27, "active": 0},
        "pipelines": list(pipelines),
        "gpu_workers": [idle(0), idle(1)] if workers is None else workers,
        "allocations": {
            "srs": [{"circuit_id": "porep-32g", "bytes": 47 * 10**9, "last_used_secs_ago": 0.0, "evictable": False}],
            "pce": [],
        },
        "counters": {
            "total_completed": 0, "total_failed": 0, "completed_by_kind": {}, "failed_by_kind": {}, "queue_depth": 0,
        },
        "buffers": {"synth_in_flight": 2**64 - 1, "provers_in_flight": 0, "aux_in_flight": 0, "shells_in_flight": 0,
                    "pending_handles": 0},
    } | more  # fmt: skip


def idle(number: int, gpu: int = 0) -> dict[str, Any]:
    blank = {"current_job": None, "current_partition": None, "busy_secs": None}
    return {"worker_id": number, "gpu_ordinal": gpu, "state": "idle"} | blank


def proving(number: int, job: str, partition: int, gpu: int = 0) -> dict[str, Any]:
    what = {"current_job": job, "current_partition": partition, "busy_secs": 0.5}
    return idle(number, gpu) | {"state": "proving"} | what


def pipeline(job: str, states: str, started: float = 10.0, kind: str = "porep-c2") -> dict[str, Any]:
    """`states` has a letter a partition: p(ending), s(ynthesizing), r(eady), g(pu), d(one), f(ailed)."""
    words = {"p": "pending", "s": "synthesizing", "r": "synth_done", "g": "gpu", "d": "done", "f": "failed"}
    partitions = [
        {
            "index": n,
            "state": words[c],
            "synth_ms": 31_200 if c in "rgdf" else None,
            "gpu_ms": 587 if c in "gd" else None,
        }
        for n, c in enumerate(states)
    ]
    return {
        "job_id": job, "proof_kind": kind, "started_secs_ago": started, "total_partitions": len(states),
        "partitions_done": states.count("d"), "partitions": partitions,
    }  # fmt: skip

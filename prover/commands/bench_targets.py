"""What `cuzk bench` measures against: a database with its provers, or one prover's gRPC."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from prover.errors import CuzkError
from prover.filecoin.proto import cuzk_pb2 as pb
from prover.filecoin.request import MAX_REQUEST, ProofRequest
from prover.journal.client import Client

TOKEN = "CUZK_TOKEN"  # of the environment: what a prover asks for over TCP
_SERVICE = "/cuzk.v1.ProvingEngine"


class EngineUnreachable(CuzkError):
    """The prover does not answer over gRPC."""

    code = "engine_unreachable"


class EngineRefused(CuzkError):
    """The prover refused the call; the text is its own."""

    code = "engine_refused"


class NeedsEngine(CuzkError):
    """Only a prover answers this, over gRPC: name it by --addr."""

    code = "needs_engine"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a job ended; milliseconds by the prover's own account, the wall's seconds by ours."""

    job: str
    status: str
    error: str
    queue_ms: int
    load_ms: int
    synthesis_ms: int
    gpu_ms: int
    total_ms: int
    wall_s: float
    proof: bytes

    @property
    def completed(self) -> bool:
        return self.status == "COMPLETED"


class Target(Protocol):
    """Takes requests, and waits for their end."""

    def prove(self, request: ProofRequest) -> Outcome: ...
    def close(self) -> None: ...


class DatabaseTarget:
    """Any prover of a database. One for a thread."""

    def __init__(self, url: str, by: str = "bench") -> None:
        self._client = Client(url)
        self._by = by

    def prove(self, request: ProofRequest) -> Outcome:
        """Submit, and wait for the end. Raises DatabaseUnusable and its kin."""
        began = time.monotonic()
        row = self._client.wait(self._client.submit(request, self._by).job)
        took = row.timings
        gpu = sum(took.get(phase, 0) for phase in ("device_wait_ms", "device_ms", "tail_ms"))
        return Outcome(
            row.request_id, {"done": "COMPLETED"}.get(row.state, row.state.upper()), row.error_message or "",
            took.get("queue_ms", 0), took.get("load_ms", 0), took.get("synthesis_ms", 0), gpu,
            took.get("total_ms", 0), time.monotonic() - began, self._client.proof(row.job) if row.done else b"",
        )  # fmt: skip

    def close(self) -> None:
        self._client.close()


class EngineTarget:
    """One prover, over gRPC. `address` is as cuzk-bench takes it: http://HOST:PORT, HOST:PORT or unix:///PATH."""

    def __init__(self, address: str, environment: Mapping[str, str] = os.environ) -> None:
        import grpc

        limit = [("grpc.max_receive_message_length", MAX_REQUEST), ("grpc.max_send_message_length", MAX_REQUEST)]
        self._channel = grpc.insecure_channel(address.removeprefix("http://").rstrip("/"), limit)
        token = environment.get(TOKEN)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()

    def prove(self, request: ProofRequest) -> Outcome:
        """One call of Prove. Raises EngineRefused, EngineUnreachable."""
        began = time.monotonic()
        submit = pb.SubmitProofRequest.FromString(request.canonical)
        found = self.call("Prove", pb.ProveRequest(submit=submit), pb.ProveResponse.FromString).result
        status = pb.AwaitProofResponse.Status.Name(found.status)
        return Outcome(
            found.job_id, status, found.error_message, found.queue_wait_ms, found.srs_load_ms, found.synthesis_ms,
            found.gpu_compute_ms, found.total_ms, time.monotonic() - began, found.proof,
        )  # fmt: skip

    def call(self, method: str, message: Any, read: Callable[[bytes], Any]) -> Any:
        """One method of the service. Raises EngineRefused, EngineUnreachable."""
        import grpc

        stub = self._channel.unary_unary(f"{_SERVICE}/{method}", type(message).SerializeToString, read)
        try:
            return stub(message, metadata=self._metadata)
        except grpc.RpcError as error:
            away = error.code() is grpc.StatusCode.UNAVAILABLE
            raise (EngineUnreachable if away else EngineRefused)(f"{error.code().name}: {error.details()}") from error

    def close(self) -> None:
        self._channel.close()

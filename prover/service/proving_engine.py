"""The eight methods of gRPC `cuzk.v1.ProvingEngine`: messages in, messages out, errors as `prover.errors`.

What may take long (reading a request, the database, loading a key) runs in threads: a bounded number of requests is
read at a time, and a slow one never keeps lookups waiting. Waiting for a job costs no thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from prover.errors import InvalidRequest
from prover.filecoin.circuit_ids import circuit_of
from prover.filecoin.proto import cuzk_pb2 as pb
from prover.journal.client import JobRow
from prover.states import JOB_ENDS, Job

from .desk import Desk, Ticket
from .errors import ServiceBusy, ServiceDraining
from .key_control import KeyControl
from .live import Live
from .original_metrics import original_metrics
from .original_status import original_status
from .waits import Waits

READERS = 2  # requests that are read at a time: each takes several times its size of memory
MAX_WAITING = 16  # requests that may wait for a reader
LOOKUPS = 4
LOADERS = 4  # keys that are loaded at a time by PreloadSRS

_STATUS = {
    Job.DONE: pb.AwaitProofResponse.COMPLETED,
    Job.FAILED: pb.AwaitProofResponse.FAILED,
    Job.CANCELLED: pb.AwaitProofResponse.CANCELLED,
}
M = TypeVar("M", bound=Message)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """What a call brings beside its message."""

    deadline: str | None = None  # of a job: metadata cuzk-deadline


class ProvingEngine:
    """Of one event loop."""

    def __init__(self, live: Live, desk: Desk, waits: Waits, keys: KeyControl) -> None:
        self._live, self._desk, self._waits, self._keys = live, desk, waits, keys
        self._readers = ThreadPoolExecutor(READERS, "service-reader")
        self._lookups = ThreadPoolExecutor(LOOKUPS, "service-lookup")
        self._loaders = ThreadPoolExecutor(LOADERS, "service-loader")
        self._reading = 0

    def close(self) -> None:
        """After the last call."""
        for pool in (self._readers, self._lookups, self._loaders):
            pool.shutdown(wait=False, cancel_futures=True)
        self._desk.close()

    # -- the methods ------------------------------------------------------------------------------------------------

    async def submit_proof(self, data: bytes, call: Call) -> pb.SubmitProofResponse:
        """Queue a request, or find its job."""
        ticket = await self._submit(data, call)
        return pb.SubmitProofResponse(job_id=ticket.name, queue_position=ticket.position)

    async def await_proof(self, data: bytes, call: Call) -> pb.AwaitProofResponse:
        """Wait for a job's end, at most `timeout_ms`; 0: for ever."""
        request = parsed(pb.AwaitProofRequest, data)
        row = await self._look_up(partial(self._desk.find, request.job_id))
        return await self._answer(row, request.job_id, request.timeout_ms / 1000 or None)

    async def prove(self, data: bytes, call: Call) -> pb.ProveResponse:
        """Submit and wait for the end."""
        ticket = await self._submit(data, call, wrapped=True)
        row = await self._look_up(partial(self._desk.find, ticket.job))
        return pb.ProveResponse(result=await self._answer(row, ticket.name, None))

    async def cancel_proof(self, data: bytes, call: Call) -> pb.CancelProofResponse:
        """Cancel a job."""
        request = parsed(pb.CancelProofRequest, data)
        was_running = await self._look_up(partial(self._desk.cancel, request.job_id))
        return pb.CancelProofResponse(was_running=was_running)

    async def get_status(self, data: bytes, call: Call) -> pb.GetStatusResponse:
        """What this prover does."""
        parsed(pb.GetStatusRequest, data)
        return original_status(self._live)

    async def get_metrics(self, data: bytes, call: Call) -> pb.GetMetricsResponse:
        """The original's metrics, by its names."""
        parsed(pb.GetMetricsRequest, data)
        return pb.GetMetricsResponse(prometheus_text=original_metrics(self._live))

    async def preload_srs(self, data: bytes, call: Call) -> pb.PreloadSrsResponse:
        """Load a circuit's key on every device."""
        shape = circuit_of(parsed(pb.PreloadSrsRequest, data).circuit_id)
        start = time.monotonic()
        already = await self._in(self._loaders, partial(self._keys.preload, shape))
        milliseconds = 0 if already else round(1000 * (time.monotonic() - start))
        return pb.PreloadSrsResponse(already_loaded=already, load_time_ms=milliseconds)

    async def evict_srs(self, data: bytes, call: Call) -> pb.EvictSrsResponse:
        """Drop a circuit's key."""
        shape = circuit_of(parsed(pb.EvictSrsRequest, data).circuit_id)
        freed = await self._in(self._loaders, partial(self._keys.evict, shape))
        return pb.EvictSrsResponse(was_loaded=freed is not None, freed_bytes=freed or 0)

    # -- what they share --------------------------------------------------------------------------------------------

    async def _submit(self, data: bytes, call: Call, *, wrapped: bool = False) -> Ticket:
        if self._live.draining:
            raise ServiceDraining()
        if self._reading >= READERS + MAX_WAITING:
            raise ServiceBusy(f"{self._reading} requests are being read already")
        self._reading += 1
        try:
            return await self._in(self._readers, partial(self._read, data, call.deadline, wrapped))
        finally:
            self._reading -= 1

    def _read(self, data: bytes, deadline: str | None, wrapped: bool) -> Ticket:
        return self._desk.submit(_unwrapped(data) if wrapped else data, deadline)

    async def _answer(self, row: JobRow, name: str, timeout_s: float | None) -> pb.AwaitProofResponse:
        """Of a job that was found; once it has ended, or too much time has passed."""
        if row.state not in JOB_ENDS:
            if not await self._waits.until_ended(row.job, timeout_s):
                return pb.AwaitProofResponse(job_id=name, status=pb.AwaitProofResponse.TIMEOUT)
            row = await self._look_up(partial(self._desk.find, row.job))
        proof = await self._look_up(partial(self._desk.proof, row)) if row.done else b""
        return _response(row, name, proof)

    async def _look_up(self, question: Callable[[], T]) -> T:
        return await self._in(self._lookups, question)

    async def _in(self, pool: ThreadPoolExecutor, question: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, question)


def parsed(kind: type[M], data: bytes) -> M:
    """A message. Raises InvalidRequest."""
    try:
        found: M = kind.FromString(data)
        return found
    except DecodeError as error:
        raise InvalidRequest(f"the bytes are no {kind.DESCRIPTOR.name} in protobuf") from error


def _unwrapped(data: bytes) -> bytes:
    """The SubmitProofRequest of a ProveRequest."""
    request = parsed(pb.ProveRequest, data)
    if not request.HasField("submit"):
        raise InvalidRequest("the request is missing", field="submit")
    submitted: bytes = request.submit.SerializeToString()
    return submitted


def _response(row: JobRow, name: str, proof: bytes) -> pb.AwaitProofResponse:
    found = pb.AwaitProofResponse(job_id=name, status=_STATUS[Job(row.state)], proof=proof)
    if not row.done:
        code = row.error_code or row.state
        found.error_message = f"{row.error_message} [{code}]" if row.error_message else code
    timings = row.timings
    found.queue_wait_ms, found.srs_load_ms = timings.get("queue_ms", 0), timings.get("load_ms", 0)
    found.synthesis_ms, found.gpu_compute_ms = timings.get("synthesis_ms", 0), timings.get("device_ms", 0)
    found.total_ms = timings.get("total_ms", 0)
    return found

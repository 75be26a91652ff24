"""gRPC `cuzk.v1.ProvingEngine` on a real database: submitting, waiting, cancelling, and what it refuses."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from prover.filecoin.proto import cuzk_pb2 as pb
from prover.states import Attempt
from tests.journal.helpers import PROOF, eventually

from .conftest import Served, message

pytestmark = pytest.mark.postgres
Status = pb.AwaitProofResponse


def test_submit_await_and_prove(served: Served) -> None:
    request = message()
    made = served.call("SubmitProof", request)
    assert (made.job_id, made.queue_position, made.assigned_gpu) == (request.request_id, 1, "")
    assert served.call("SubmitProof", message("winning-post")).queue_position == 1  # CRITICAL goes first
    assert served.call("SubmitProof", message()).queue_position == 3
    assert served.call("SubmitProof", request).queue_position == 2  # found again, not queued again

    waiting = served.call("AwaitProof", pb.AwaitProofRequest(job_id=made.job_id, timeout_ms=1))
    assert (waiting.status, waiting.job_id) == (Status.TIMEOUT, made.job_id)

    with ThreadPoolExecutor() as pool:
        answers = [
            pool.submit(served.call, "Prove", pb.ProveRequest(submit=request)),
            pool.submit(served.call, "AwaitProof", pb.AwaitProofRequest(job_id=made.job_id)),
        ]
        for job in served.prover.take(3):
            served.prover.prove(job)
        proved, awaited = answers[0].result().result, answers[1].result()
    assert proved == awaited
    assert (awaited.status, awaited.proof, awaited.job_id) == (Status.COMPLETED, PROOF, made.job_id)
    assert (awaited.total_ms, awaited.error_message) == (5, "")
    again = served.call("Prove", pb.ProveRequest(submit=request)).result
    assert again == awaited  # stored, and not proved again


def test_the_job_can_be_named_by_its_own_id_too(served: Served) -> None:
    served.call("SubmitProof", message())
    (job,) = served.prover.take()
    served.prover.prove(job)
    served.prover.journal.flush()
    assert served.call("AwaitProof", pb.AwaitProofRequest(job_id=job.info.id)).status == Status.COMPLETED


def test_a_failed_job_says_why_and_its_id_may_be_used_again(served: Served) -> None:
    request = message()
    served.call("SubmitProof", request)
    (job,) = served.prover.take()
    served.prover.tracker.job_loading(job.info.id)
    served.prover.tracker.job_completed(job.info.id, ValueError("no such leaf"))
    answer = served.call("AwaitProof", pb.AwaitProofRequest(job_id=request.request_id))
    assert (answer.status, answer.proof) == (Status.FAILED, b"")
    assert answer.error_message == "ValueError: no such leaf [internal_error]"
    assert served.call("SubmitProof", request).queue_position == 1
    assert (
        served.call("AwaitProof", pb.AwaitProofRequest(job_id=request.request_id, timeout_ms=1)).status
        == Status.TIMEOUT
    )


def test_cancel_of_a_queued_job_and_of_a_running_one(served: Served) -> None:
    queued, running = message(), message("winning-post")
    served.call("SubmitProof", queued)
    served.call("SubmitProof", running)
    (job,) = served.prover.take()
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(served.call, "Prove", pb.ProveRequest(submit=queued))
        assert served.call("CancelProof", pb.CancelProofRequest(job_id=queued.request_id)).was_running is False
        assert waiting.result().result.status == Status.CANCELLED
    assert served.call("CancelProof", pb.CancelProofRequest(job_id=running.request_id)).was_running is True
    eventually(
        lambda: (
            [(c.action, c.target, c.by) for c in served.prover.control.commands] == [("cancel", job.info.id, "grpc")]
        )
    )
    assert served.call("CancelProof", pb.CancelProofRequest(job_id=queued.request_id)).was_running is False


def test_a_deadline_by_metadata(served: Served) -> None:
    for given, hours in (("90m", 1.5), ("2h", 2), ("2126-01-01T00:00:00Z", None)):
        request = message()
        served.call("SubmitProof", request, metadata=(("cuzk-deadline", given),))
        with served.database.connect() as owner:
            ((left,),) = owner.execute(
                "SELECT extract(epoch FROM deadline - now())::float8 / 3600 FROM job WHERE request_id = %s",
                [request.request_id],
            ).fetchall()
        assert left > 8e5 if hours is None else abs(left - hours) < 0.05
    for given in ("soon", "2126-01-01T00:00:00", "2001-01-01T00:00:00Z", "-5m", "99999999h"):
        refused = served.refused("SubmitProof", message(), metadata=(("cuzk-deadline", given),))
        assert refused == (grpc.StatusCode.INVALID_ARGUMENT, "deadline_invalid")


BAD = {
    "malformed": ("SubmitProof", b"\xff\xff\xff", "INVALID_ARGUMENT", "invalid_request"),
    "malformed status": ("GetStatus", b"\x08", "INVALID_ARGUMENT", "invalid_request"),
    "empty": ("SubmitProof", b"", "INVALID_ARGUMENT", "invalid_request"),
    "no submit": ("Prove", b"", "INVALID_ARGUMENT", "invalid_request"),
    "malformed submit": ("Prove", b"\x0a\x02\xff\xff", "INVALID_ARGUMENT", "invalid_request"),
    "wrong enum": ("SubmitProof", message(proof_kind=77), "INVALID_ARGUMENT", "unsupported_proof"),
    "no kind": ("SubmitProof", message(proof_kind=0), "INVALID_ARGUMENT", "unsupported_proof"),
    "wrong size": ("SubmitProof", message(sector_size=3), "INVALID_ARGUMENT", "unsupported_sector_size"),
    "hostile label": ("SubmitProof", message(request_id="a\x00b"), "INVALID_ARGUMENT", "invalid_label"),
    "non-canonical": ("SubmitProof", message(randomness=b"\xff" * 32), "INVALID_ARGUMENT", "non_canonical_element"),
    "unknown job": ("AwaitProof", pb.AwaitProofRequest(job_id="never"), "NOT_FOUND", "job_unknown"),
    "odd job": ("CancelProof", pb.CancelProofRequest(job_id="\x01'; DROP"), "NOT_FOUND", "job_unknown"),
    "NUL job": ("CancelProof", pb.CancelProofRequest(job_id="a\0b"), "NOT_FOUND", "job_unknown"),
    "unknown circuit": ("PreloadSRS", pb.PreloadSrsRequest(circuit_id="porep-33g"), "NOT_FOUND", "circuit_unknown"),
    "no circuit": ("EvictSRS", pb.EvictSrsRequest(), "NOT_FOUND", "circuit_unknown"),
}


def test_bad_input_gets_a_clear_status_and_the_service_goes_on(served: Served) -> None:
    for name, (method, request, status, code) in BAD.items():
        assert served.refused(method, request) == (getattr(grpc.StatusCode, status), code), name
    assert served.call("SubmitProof", message()).queue_position == 1
    with served.database.connect() as owner:
        assert owner.execute("SELECT count(*) FROM job").fetchone() == (1,)


def test_a_conflict_is_told(served: Served) -> None:
    request = message()
    served.call("SubmitProof", request)
    other = message("winning-post", request_id=request.request_id)
    assert served.refused("SubmitProof", other) == (grpc.StatusCode.ALREADY_EXISTS, "request_conflict")


def test_a_wrong_priority_counts_as_normal(served: Served) -> None:
    served.call("SubmitProof", message(priority=99))
    assert served.prover.take()[0].info.priority == 2


def test_a_message_over_the_limit_is_refused_and_the_service_goes_on(served: Served) -> None:
    with pytest.raises(grpc.RpcError) as failure:
        served.call("SubmitProof", b"\0" * ((128 << 20) + 1))
    assert failure.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(128 << 20) in failure.value.details()
    assert served.refused("SubmitProof", b"\0" * (128 << 20))[1] == "invalid_request"
    assert served.call("SubmitProof", message()).queue_position == 1


def test_half_open_calls_keep_no_place(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers that begin a call and send no message are told so; others are answered meanwhile."""
    monkeypatch.setattr("prover.service.grpc_server.RECEIVE_S", 1.0)
    release = threading.Event()

    def nothing() -> Any:
        release.wait(30)
        yield from ()

    stub = served.channel().stream_unary("/cuzk.v1.ProvingEngine/SubmitProof")
    calls = [stub.future(nothing(), timeout=30) for _ in range(50)]
    assert served.call("GetStatus", pb.GetStatusRequest()).gpus[0].name == "device 0"
    for call in calls:
        assert call.exception(10).code() is grpc.StatusCode.DEADLINE_EXCEEDED
    release.set()


def test_many_who_wait_take_no_threads(served: Served) -> None:
    request = message()
    served.call("SubmitProof", request)
    before = threading.active_count()
    stub = served.channel().unary_unary("/cuzk.v1.ProvingEngine/AwaitProof")
    data = pb.AwaitProofRequest(job_id=request.request_id).SerializeToString()
    calls = [stub.future(data, timeout=60) for _ in range(200)]
    served.call("GetStatus", pb.GetStatusRequest())
    assert threading.active_count() <= before + 8
    served.call("CancelProof", pb.CancelProofRequest(job_id=request.request_id))
    assert {Status.FromString(call.result(30)).status for call in calls} == {Status.CANCELLED}


def test_local_keys_are_refused(served: Served) -> None:
    served.service._desk._allow_local_keys = False
    assert served.refused("SubmitProof", message()) == (grpc.StatusCode.FAILED_PRECONDITION, "local_keys_refused")
    served.service._desk._makes_keys = False  # then another prover may have a key of the chain
    request = message()
    served.call("SubmitProof", request)
    (job,) = served.prover.take()
    served.prover.prove(job)  # with local keys
    served.prover.journal.flush()
    refused = served.refused("AwaitProof", pb.AwaitProofRequest(job_id=request.request_id))
    assert refused == (grpc.StatusCode.FAILED_PRECONDITION, "local_keys_refused")


def test_while_it_drains_it_takes_nothing_new(served: Served) -> None:
    served.live.draining = True
    assert served.refused("SubmitProof", message()) == (grpc.StatusCode.UNAVAILABLE, "service_draining")
    assert served.refused("Prove", pb.ProveRequest(submit=message()))[1] == "service_draining"
    assert served.call("GetStatus", pb.GetStatusRequest()).uptime_seconds >= 0


def test_who_waits_when_the_prover_stops_is_told(served: Served) -> None:
    request = message()
    served.call("SubmitProof", request)
    with ThreadPoolExecutor() as pool:
        ask = pb.AwaitProofRequest(job_id=request.request_id)
        waiting = pool.submit(served.refused, "AwaitProof", ask, channel=served.channel())
        eventually(lambda: _waiting(served) == 1)
        served.service.stop()
        assert waiting.result() == (grpc.StatusCode.UNAVAILABLE, "service_draining")


def _waiting(served: Served) -> int:
    """How many wait for a job in the database's eyes."""
    with served.database.connect() as owner:
        rows = owner.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = 'cuzk waits'").fetchall()
    return len(rows)


def test_a_thousand_mutated_requests_are_answered(served: Served) -> None:
    """Bytes are changed, dropped and doubled: each is refused with a code of ours, or taken; nothing else happens."""
    rng = random.Random(20)
    good = message().SerializeToString()
    answers: Counter[str] = Counter()
    for _ in range(1000):
        data = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(data) if rng.random() < 0.5 else 150)
            data[at : at + rng.choice((0, 1, 1, 4))] = rng.randbytes(rng.choice((0, 1, 1, 4)))
        try:
            served.call("SubmitProof", bytes(data))
            answers["OK"] += 1
        except grpc.RpcError as error:
            answers[error.code().name] += 1
            assert error.code() is not grpc.StatusCode.INTERNAL, (error.details(), bytes(data).hex())
    assert set(answers) <= {"OK", "INVALID_ARGUMENT", "ALREADY_EXISTS"} and answers["INVALID_ARGUMENT"] > 300
    with served.database.connect() as owner:
        ((jobs,),) = owner.execute("SELECT count(*) FROM job").fetchall()
    assert 0 < jobs <= answers["OK"]  # what was the same request still found its job


def test_status_has_an_entry_a_device_and_a_queue_for_every_kind(served: Served) -> None:
    served.call("SubmitProof", message())
    (job,) = served.prover.take()
    served.call("SubmitProof", message("winning-post"))
    tracker, name = served.prover.tracker, job.info.id
    tracker.job_loading(name)
    tracker.job_running(name)
    key = tracker.new_attempt(name)
    assert key is not None
    for step in (tracker.reserved, tracker.partition_synth_start, tracker.partition_synth_end):
        assert step(key)
    assert tracker.partition_gpu_start(key, served.prover.workers[1])
    eventually(lambda: served.live.depths() == {"winning-post": 1})
    found = served.call("GetStatus", pb.GetStatusRequest())
    (gpu,) = found.gpus
    assert (gpu.ordinal, gpu.name, gpu.vram_total_bytes) == (0, "device 0", 1 << 30)
    assert (gpu.current_job_id, gpu.current_proof_kind) == (job.info.request_id, "window-post")
    assert {(queue.proof_kind, queue.pending, queue.in_progress) for queue in found.queues} == {
        ("porep-c2", 0, 0), ("snap-update", 0, 0), ("window-post", 0, 1), ("winning-post", 1, 0),
    }  # fmt: skip
    for step in (tracker.device_wait, tracker.device_start, tracker.handoff):
        assert step(key)
    assert served.call("GetStatus", pb.GetStatusRequest()).gpus[0].current_job_id == ""  # the device is free
    assert tracker.snapshot().views["attempt"][key.id].state == Attempt.FINALIZING


def test_preload_and_evict(served: Served) -> None:
    ask = pb.PreloadSrsRequest(circuit_id="wpost-2k")
    assert served.call("PreloadSRS", ask).already_loaded is False
    assert served.call("PreloadSRS", ask) == pb.PreloadSrsResponse(already_loaded=True, load_time_ms=0)
    evicted = served.call("EvictSRS", pb.EvictSrsRequest(circuit_id="wpost-2k"))
    assert evicted == pb.EvictSrsResponse(was_loaded=True, freed_bytes=123)
    assert served.call("EvictSRS", pb.EvictSrsRequest(circuit_id="wpost-2k")) == pb.EvictSrsResponse()
    assert {shape.label for _, shape in served.keys.asked} == {"window-post 2KiB"}
    served.keys.error = ZeroDivisionError("secret")
    assert served.refused("PreloadSRS", ask) == (grpc.StatusCode.INTERNAL, "internal_error")


def test_an_outage_of_the_database_is_told_and_waited_through(own_server: Any, tmp_path: Any) -> None:
    from .conftest import serving

    with serving(own_server, tmp_path) as served:
        request = message()
        served.call("SubmitProof", request)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(served.call, "AwaitProof", pb.AwaitProofRequest(job_id=request.request_id))
            time.sleep(0.3)
            own_server.server.stop()
            assert served.refused("SubmitProof", message()) == (grpc.StatusCode.UNAVAILABLE, "database_away")
            own_server.server.start()
            eventually(lambda: served.call("CancelProof", pb.CancelProofRequest(job_id=request.request_id)) is not None)
            assert waiting.result().status == Status.CANCELLED

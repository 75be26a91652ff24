"""GET /status, /metrics, /livez, /readyz: their content, who may ask, and callers that do not behave."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from prover.filecoin.proto import cuzk_pb2 as pb
from prover.filecoin.shapes import ProofKind, post_shape
from prover.pipeline.attempts import AttemptKey
from prover.pipeline.keys import KeyRow
from prover.service import http_server
from prover.service.http_server import Page, Pages, Rules, text_answer
from prover.service.live import allocations
from prover.states import Holding, fold
from prover.status import Moment, status
from tests.cli.test_status import SHAPE, at
from tests.journal.helpers import eventually, log_of, submit_one
from tests.postgres import ROOT, Database

from .conftest import Served, message, serving

pytestmark = pytest.mark.postgres
TOKEN = "a-token-of-24-characters"


def get(served: Served, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", served.http.port, timeout=10)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def shown(served: Served) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(served, "/status").read())
    return found


def running_job(served: Served, partitions: int = 3) -> str:
    """A job of which P0 is finalized, P1 on the device and P2 being synthesised."""
    submit_one(served.database, request_id="deadline-1", partitions=partitions)
    (job,) = served.prover.take()
    tracker, name = served.prover.tracker, job.info.id
    tracker.holding("key:window-post 2KiB@0", Holding.LOADING, {})
    tracker.holding("key:window-post 2KiB@0", Holding.READY, {"name": "window-post 2KiB", "bytes": 9, "device": 0})
    tracker.job_loading(name)
    tracker.job_running(name)
    for partition in range(partitions):
        key = tracker.new_attempt(name, partition)
        assert key is not None
        steps = [tracker.reserved, tracker.partition_synth_start]
        assert all(step(key) for step in steps)
        if partition < 2:
            assert tracker.partition_synth_end(key) and tracker.partition_gpu_start(key, served.prover.workers[0])
            assert tracker.device_wait(key) and tracker.device_start(key)
        if partition == 0:
            assert tracker.handoff(key)
    return name


def test_status_has_the_shape_and_a_stable_order(served: Served) -> None:
    running_job(served)
    first = shown(served)
    for path, names in SHAPE.items():
        objects = at(first, path)
        assert objects and all(set(names.split()) <= set(each) for each in objects), path
    assert list(first)[:4] == ["version", "session", "seq", "generated_at"]
    assert first["session"] == served.prover.session and first["version"] == "test"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", first["generated_at"])
    assert first["allocations"]["srs"][0]["circuit_id"] == "wpost-2k"
    assert [p["state"] for p in first["pipelines"][0]["partitions"]] == ["gpu", "gpu", "synthesizing"]
    memory = first["memory"]
    assert memory["used_bytes"] + memory["available_bytes"] == memory["total_bytes"]
    assert json.dumps(first, sort_keys=False)[:20] == json.dumps(shown(served))[:20]
    assert _keys(first) == _keys(shown(served))


def _keys(value: Any) -> Any:
    if isinstance(value, dict):
        return [(key, _keys(each)) for key, each in value.items()]
    return [_keys(each) for each in value] if isinstance(value, list) else None


def test_status_agrees_with_the_log_at_equal_seq(served: Served) -> None:
    """What a page folds from the log up to the same seq says the same of pipelines, workers and counters."""
    running_job(served)
    found = shown(served)
    assert served.prover.journal.flush()
    with served.database.connect() as owner:
        moves = [t for t in log_of(owner) if t.session != served.prover.session or t.seq <= found["seq"]]
    state = fold(moves)
    assert state.heads[served.prover.session] == found["seq"]
    page = status(Moment(state, served.prover.session, served.live.now_us(), {}))
    assert _timeless(page["pipelines"]) == _timeless(found["pipelines"])
    assert _timeless(page["gpu_workers"]) == _timeless(found["gpu_workers"])
    assert page["synthesis"]["active"] == found["synthesis"]["active"] == 1
    assert page["buffers"] == found["buffers"]


def _timeless(value: Any) -> Any:
    running = {"started_secs_ago", "synth_ms", "gpu_ms", "busy_secs"}
    if isinstance(value, dict):
        return {key: _timeless(each) for key, each in value.items() if key not in running}
    return [_timeless(each) for each in value] if isinstance(value, list) else value


def test_keys_in_the_original_words() -> None:
    used = KeyRow(post_shape(ProofKind.WINDOW_POST, 2048).key_name, "window-post 2KiB", "ready", "host", 7, 9, 2, None,
                  False, False, None)  # fmt: skip
    idle = replace(used, refs=0, idle_s=3.5, evictable=True)
    found = allocations([used, idle])
    assert [(row["circuit_id"], row["bytes"], row["last_used_secs_ago"], row["evictable"]) for row in found["srs"]] == [
        ("wpost-2k", 7, 0.0, False), ("wpost-2k", 7, 3.5, True),
    ]  # fmt: skip
    assert [row["bytes"] for row in found["pce"]] == [9, 9]


def test_counters_are_those_of_all_interfaces(served: Served) -> None:
    for _ in range(2):
        served.call("SubmitProof", message())
        served.prover.prove(served.prover.take()[0])
    served.call("SubmitProof", message())
    (failed,) = served.prover.take()
    served.prover.tracker.job_loading(failed.info.id)
    served.prover.tracker.job_completed(failed.info.id, ValueError("x"))
    served.call("SubmitProof", message("winning-post"))
    eventually(lambda: served.live.depths() == {"winning-post": 1})
    counters = shown(served)["counters"]
    assert counters == {
        "total_completed": 2, "completed_by_kind": {"window-post": 2}, "total_failed": 1,
        "failed_by_kind": {"window-post": 1}, "queue_depth": 1,
    }  # fmt: skip
    grpc_status = served.call("GetStatus", pb.GetStatusRequest())
    assert (grpc_status.total_proofs_completed, grpc_status.total_proofs_failed) == (2, 1)
    text = served.call("GetMetrics", pb.GetMetricsRequest()).prometheus_text
    for line in (
        "cuzk_proofs_completed_total 2", "cuzk_proofs_failed_total 1", "cuzk_queue_depth 1", "cuzk_gpu_workers 2",
        'cuzk_proofs_completed{proof_kind="window_post"} 2', 'cuzk_proofs_failed{proof_kind="porep_c2"} 0',
        'cuzk_proof_duration_seconds_count{proof_kind="window_post"} 2', "cuzk_running_jobs 0",
        'cuzk_proof_duration_seconds_sum{proof_kind="window_post"} 0.010',
    ):  # fmt: skip
        assert line in text.splitlines(), text
    found = samples(served)
    assert found["cuzk_jobs_ended_total", "window-post", "done"] == 2
    assert found["cuzk_jobs_ended_total", "window-post", "failed"] == 1
    assert found["cuzk_queue_depth", "winning-post"] == 1
    assert found["cuzk_phase_duration_seconds_count", "window-post", "device"] == 2


def samples(served: Served) -> dict[tuple[str, ...], float]:
    """What is scraped, by name and values of labels."""
    text = get(served, "/metrics").read().decode()
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_series_of_workers_that_have_gone_are_dropped(served: Served) -> None:
    running_job(served)
    found = samples(served)
    assert found["cuzk_worker_activity", "proving", "0", "0", "prover-a/0/0"] == 1
    assert found["cuzk_worker_activity", "idle", "1", "0", "prover-a/0/1"] == 1
    assert found["cuzk_worker_busy", "prover-a/0/0"] == 1 and found["cuzk_holding_bytes", "key:window-post 2KiB@0"] == 9
    served.prover.tracker.worker_lost(served.prover.workers[1], RuntimeError("died"))
    after = samples(served)
    assert not [key for key in after if "prover-a/0/1" in key]
    assert all(after[key] >= value for key, value in found.items() if key[0].endswith(("_total", "_count", "_bucket")))


def test_every_metric_is_documented_and_no_other(served: Served) -> None:
    served.call("SubmitProof", message())
    served.prover.prove(served.prover.take()[0])
    served.prover.tracker.partition_synth_start(AttemptKey("x", 0, 1))  # an anomaly
    text = get(served, "/metrics").read().decode()
    found = {family.name for family in text_string_to_metric_families(text)}
    names = {re.sub("_total$", "", name) for name in re.findall(r"^\| `(cuzk_\w+)", _documents(), re.MULTILINE)}
    assert found <= names and names - found <= {
        "cuzk_device_memory_bytes",
        "cuzk_journal_trouble",
        "cuzk_holding_bytes",
    }
    original = served.call("GetMetrics", pb.GetMetricsRequest()).prometheus_text
    assert all(f"`{name}`" in _documents() for name in re.findall(r"^# TYPE (\S+)", original, re.MULTILINE))


def _documents() -> str:
    return (ROOT / "docs/service.md").read_text()


def test_health(served: Served) -> None:
    assert get(served, "/livez").read() == b"ok\n"
    served.live.tick()
    ready = get(served, "/readyz")
    assert (ready.status, json.loads(ready.read())) == (200, {"ready": True, "reasons": []})
    served.live.draining = True
    drained = get(served, "/readyz")
    assert (drained.status, json.loads(drained.read())["reasons"]) == (503, ["draining"])


def test_paths_are_exact_and_nothing_is_shared_with_other_sites(served: Served) -> None:
    for path in ("/statusX", "/status/", "/", "/../status"):
        assert get(served, path).status == 404, path
    assert get(served, "/status", "POST").status == 405
    answer = get(served, "/status?x=1", Origin="https://evil.example")
    assert answer.status == 200 and answer.getheader("Connection") == "close"
    assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-control")]
    assert get(served, "/status", "HEAD").read() == b""


def test_the_host_is_checked(served: Served) -> None:
    for host in ("evil.example", "evil.example:80", "", "127.0.0.1.evil.example", "0x7f000001"):
        assert get(served, "/status", Host=host).status == 421, host
    for host in ("localhost", "localhost:9821", "127.0.0.1", "[::1]:9821", "127.0.0.1:1"):
        assert get(served, "/status", Host=host).status == 200, host


def test_who_needs_a_token() -> None:
    pages = Pages(
        {"/status": Page(lambda: text_answer("s")), "/livez": Page(lambda: text_answer("l"), is_open=True)},
        Rules("0.0.0.0", TOKEN, "https://panel.example"),
    )  # fmt: skip

    def answer(peer: str, host: str, token: str | None = None, path: str = "/status") -> int:
        given = f"Authorization: Bearer {token}\r\n" if token else ""
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{given}\r\n".encode()
        text = pages.respond(request, peer, "10.0.0.1")
        assert b"Access-Control-Allow-Origin: https://panel.example\r\n" in text
        return int(text.split()[1])

    assert answer("127.0.0.1", "localhost") == 200
    assert answer("127.0.0.1", "evil.example") == 421
    assert answer("10.0.0.9", "localhost") == 421
    assert answer("10.0.0.9", "10.0.0.1:9821") == 401
    assert answer("10.0.0.9", "10.0.0.1", "wrong") == 401
    assert answer("10.0.0.9", "10.0.0.1", TOKEN) == 200
    assert answer("10.0.0.9", "behind.a.proxy", TOKEN) == 200
    assert answer("10.0.0.9", "10.0.0.1", path="/livez") == 200


@pytest.mark.parametrize("request_", [
    b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET\r\n\r\n", b"GET /status HTTP/9\r\n\r\n", b"\r\n\r\n", b"A" * 9000,
    b"GET /status HTTP/1.1\r\nHost: a\r\nHost: localhost\r\n\r\n", b"GET /status HTTP/1.1\r\n\xff: \xff\r\n\r\n",
])  # fmt: skip
def test_what_is_no_request_is_refused(request_: bytes) -> None:
    pages = Pages({"/status": Page(lambda: text_answer("s"))}, Rules("127.0.0.1"))
    answer = pages.respond(request_, "127.0.0.1", "127.0.0.1")
    assert answer == b"" or re.match(rb"HTTP/1.[01] 4\d\d |(<!DOCTYPE|HTTP/1.0 505)", answer, re.IGNORECASE), answer


def test_slow_and_half_open_callers_keep_nobody_waiting(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "REQUEST_S", 1.0)
    monkeypatch.setattr(http_server, "MAX_CONNECTIONS", 20)
    silent = [socket.create_connection(("127.0.0.1", served.http.port)) for _ in range(50)]
    for each in silent[::2]:
        each.sendall(b"GET /sta")
    start = time.monotonic()
    assert get(served, "/livez").status == 200
    assert time.monotonic() - start < 1
    for each in silent:
        each.settimeout(10)
        with suppress(ConnectionError):
            assert each.recv(10) == b""
        each.close()


def test_before_the_first_session_and_between_two(database: Database, tmp_path: Path) -> None:
    with serving(database, tmp_path) as served:
        served.live._session = None
        found = shown(served)
        assert (found["session"], found["pipelines"], found["journal"]["trouble"]) == ("", [], "database_away")
        assert json.loads(get(served, "/readyz").read())["reasons"] == ["journal: no_session"]
        assert samples(served)["cuzk_ready",] == 0
        assert served.call("GetStatus", pb.GetStatusRequest()).gpus[0].current_job_id == ""

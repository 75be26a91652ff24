"""From `cuzk submit` over Postgres to a running `cuzk daemon` and back: real requests, real proofs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from prover.commands.exits import Exit
from prover.filecoin.proto import cuzk_pb2 as pb
from prover.filecoin.request import parse_json
from prover.stack.roles import DAEMON
from tests.journal.helpers import eventually
from tests.postgres import Database

from .running import DATA, cuzk

pytestmark = pytest.mark.postgres


@pytest.fixture
def environment(database: Database, local: Path, cache: dict[str, str]) -> dict[str, str]:
    return cache | {"DATABASE_URL": database.url(DAEMON), "FIL_PROOFS_PARAMETER_CACHE": str(local)}


@pytest.fixture
def daemon(environment: dict[str, str], tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A prover with two workers on one CPU device; it must end well after one SIGTERM."""
    log = tmp_path / "daemon.log"
    settings = {
        "spool": tmp_path / "spool", "listen": f"unix://{tmp_path}/s", "status_listen": "127.0.0.1:0",
        "allow_local_keys": "true",
    }  # fmt: skip
    flags = [word for key, value in settings.items() for word in ("--set", f"daemon.{key}={value}")]
    command = [sys.executable, "-m", "prover", "daemon", *flags]
    with log.open("wb") as stderr, subprocess.Popen(command, env=environment, stderr=stderr) as process:
        try:
            yield process
            assert process.poll() is None, log.read_text()
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0, log.read_text()
        finally:
            process.kill()
    assert "local keys: not for the chain" in log.read_text()


def _prove_over_grpc(channel: grpc.Channel, keys: Path, folder: Path) -> None:
    """A request in protobuf, as Curio sends one."""
    path = folder / "grpc.json"
    cuzk("sample", "window-post", "--seed", 6, "--out", path)
    submit = pb.SubmitProofRequest.FromString(parse_json(path.read_bytes()).canonical)
    prove = channel.unary_unary("/cuzk.v1.ProvingEngine/Prove")
    answer = prove(pb.ProveRequest(submit=submit).SerializeToString(), timeout=240)
    result = pb.ProveResponse.FromString(answer).result
    assert (result.status, len(result.proof)) == (pb.AwaitProofResponse.COMPLETED, 192), result.error_message
    assert result.total_ms >= result.gpu_compute_ms > 0 and result.synthesis_ms > 0
    (folder / "grpc.proof").write_bytes(result.proof)
    assert cuzk("verify", path, folder / "grpc.proof", "--keys", keys).stdout.startswith("valid")
    status = channel.unary_unary("/cuzk.v1.ProvingEngine/GetStatus")
    found = pb.GetStatusResponse.FromString(status(b"", timeout=60))
    assert found.total_proofs_completed == 1 and found.loaded_srs[0].circuit_id == "wpost-2k"
    assert found.loaded_srs[0].size_bytes > 0 and found.pinned_memory_bytes > 0


def test_a_request_becomes_a_proof(
    daemon: subprocess.Popen[bytes], environment: dict[str, str], local: Path, tmp_path: Path
) -> None:
    request, out = tmp_path / "request.json", tmp_path / "proof"
    with grpc.insecure_channel(f"unix:{tmp_path}/s") as channel:
        grpc.channel_ready_future(channel).result(60)
        preload = channel.unary_unary("/cuzk.v1.ProvingEngine/PreloadSRS")
        ask = pb.PreloadSrsRequest(circuit_id="wpost-2k").SerializeToString()
        calls = [preload.future(ask, timeout=240) for _ in range(3)]  # they share one load
        loaded = [pb.PreloadSrsResponse.FromString(call.result()) for call in calls]
        assert not loaded[0].already_loaded and loaded[0].load_time_ms > 0
        assert pb.PreloadSrsResponse.FromString(preload(ask, timeout=60)).already_loaded
        _prove_over_grpc(channel, local, tmp_path)
    cuzk("sample", "window-post", "--seed", 5, "--sectors", 3, "--out", request)

    def run(*arguments: Any) -> subprocess.CompletedProcess[str]:
        return cuzk(*arguments, env=environment, timeout=240)

    made = run("submit", request, "--out", out)
    assert made.returncode == 0, made.stderr
    assert "local keys: not for the chain" in made.stderr
    assert run("verify", request, out, "--keys", local).stdout == "valid: window-post 2KiB, 2 partitions\n"
    assert run("submit", request, "--wait").stdout == made.stdout  # the same job: done, and not proved again

    false = tmp_path / "false.json"
    fields = json.loads((DATA / "2k/requests/window-post.json").read_text())
    false.write_text(json.dumps(fields | {"randomness": json.loads(request.read_text())["randomness"]}))
    refused = run("submit", false, "--wait")
    assert refused.returncode == Exit.REFUSED
    assert "vanilla_proofs[0].sectors[0].inclusion_proofs[0]: " in refused.stderr
    assert "[wrong_challenge]" in refused.stderr

    def idle() -> dict[str, Any] | None:
        found = json.loads(run("status", "--json").stdout)
        return None if found["pipelines"] else found

    found = eventually(idle)
    assert (found["counters"]["total_completed"], found["counters"]["total_failed"]) == (2, 1)
    assert [(w["worker_id"], w["state"], w["finalizing"]) for w in found["gpu_workers"]] == [
        (0, "idle", []),
        (1, "idle", []),
    ]
    assert found["local_keys"] is True
    its_key_is_managed(run, found)


def its_key_is_managed(run: Callable[..., subprocess.CompletedProcess[str]], found: dict[str, Any]) -> None:
    """Pinned, refused, unpinned, evicted and loaded again, by commands; seen in the status."""
    (key,) = (key for key in found["allocations"]["srs"] if key["name"] == "window-post 2KiB")
    assert key["bytes"] > 0 and (key["ref_count"], key["pinned"], key["evictable"]) == (0, False, False)
    for action, code, said in (
        ("pin", 0, "pinned: it stays"),
        ("evict", 1, "refused: window-post 2KiB: it is pinned [key_in_use]"),
        ("unpin", 0, "unpinned"),
        ("evict", 0, "evicted: "),
        ("evict", 0, "was not loaded"),
        ("preload", 0, "window-post 2KiB: loaded in "),
        ("preload", 0, "was loaded already"),
    ):
        answer = run("keys", action, "wpost-2k", "--timeout", 60)
        assert answer.returncode == code and said in answer.stderr, (action, answer.stderr)
    unknown = run("keys", "pin", "wpost-2k", "--prover", "nobody")
    assert "[prover_unknown]" in unknown.stderr and unknown.returncode != 0
    assert "[circuit_unknown]" in run("keys", "pin", "wpost-3k").stderr

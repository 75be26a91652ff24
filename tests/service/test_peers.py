"""Clients that are not ours speak to the service: one in Go, of stubs that its tools make of our .proto, and grpcurl,
which knows nothing but what reflection tells."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.postgres import ROOT, Database

from .conftest import Served, message, serving

pytestmark = [pytest.mark.postgres, pytest.mark.acceptance]
HERE = Path(__file__).parent / "go"
PROTO = "prover/filecoin/proto/cuzk.proto"
TOOLS = {
    "protoc-gen-go": "google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11",
    "protoc-gen-go-grpc": "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2",
    "grpcurl": "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.4",
}


def go(*arguments: str, **environment: str) -> None:
    """Run the Go tool; the test is skipped where it, or the modules that it wants, cannot be had."""
    if shutil.which("go") is None:
        pytest.skip("peer not installed: Go")
    made = subprocess.run(
        ["go", *arguments], env=os.environ | environment, capture_output=True, text=True, timeout=900, cwd=HERE
    )  # fmt: skip
    if made.returncode and any(word in made.stderr for word in ("dial tcp", "proxy.golang.org", "i/o timeout")):
        pytest.skip(f"peer not installed: Go's modules cannot be had ({made.stderr[-200:]})")
    assert made.returncode == 0, made.stderr


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tools, by their names."""
    folder = tmp_path_factory.mktemp("go")
    for package in TOOLS.values():
        go("install", package, GOBIN=str(folder))
    return folder


@pytest.fixture(scope="module")
def client(tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our program, on stubs that are made now."""
    folder = tmp_path_factory.mktemp("client")
    for name in ("main.go", "go.mod", "go.sum"):
        shutil.copy(HERE / name, folder)
    mapped = f"M{PROTO}=cuzk.test/client/cuzkv1"
    module = "module=cuzk.test/client"
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", PROTO]
    for plugin in ("go", "go-grpc"):
        command += [f"--plugin=protoc-gen-{plugin}={tools}/protoc-gen-{plugin}", f"--{plugin}_out={folder}"]
        command += [f"--{plugin}_opt={mapped}", f"--{plugin}_opt={module}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    go("build", "-C", str(folder), "-o", "client", ".")
    return folder / "client"


def said(process: subprocess.Popen[str]) -> Iterator[dict[str, Any]]:
    """What it prints, line by line."""
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, Any] = json.loads(line)
        yield found


@pytest.mark.parametrize("over", ["unix", "tcp"])
def test_a_client_in_go(database: Database, tmp_path: Path, client: Path, over: str) -> None:
    first, second = message(), message("winning-post")
    for name, request in (("first", first), ("second", second)):
        (tmp_path / name).write_bytes(request.SerializeToString())
    with serving(database, tmp_path) as served:
        target = f"unix://{served.socket}" if over == "unix" else f"dns:///{served.tcp}"
        command = [client, target, tmp_path / "first", tmp_path / "second"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            steps = {}
            for line in said(process):
                steps[line.pop("step")] = line
                if "go" in steps and "await" not in steps:
                    served.prover.prove(served.prover.take()[0])
        assert process.returncode == 0
    assert steps["submit"] == {"job": first.request_id, "position": 1}
    assert steps["timeout"] == {"status": "TIMEOUT"}
    assert steps["await"] == {"status": "COMPLETED", "bytes": 192, "total_ms": 5}
    assert steps["prove"] == {"same": True}
    assert steps["cancel"] == {"was_running": False, "status": "CANCELLED"}
    assert steps["status"] == {"gpus": 1, "queues": 4, "completed": 1}
    assert "cuzk_proofs_completed_total 1" in steps["metrics"]["text"]
    assert (steps["preload"], steps["evict"]) == ({"already": False}, {"was_loaded": True, "freed": 123})
    assert steps["unknown"]["code"] == "NotFound" and "[circuit_unknown]" in steps["unknown"]["text"]
    assert steps["large"] == {"code": "ResourceExhausted"}


def test_grpcurl_by_reflection(served: Served, tools: Path) -> None:
    def ask(*arguments: str, data: str = "") -> subprocess.CompletedProcess[str]:
        options = ["-plaintext", *(["-d", data] if data else []), *arguments[:-1], str(served.tcp), arguments[-1]]
        return subprocess.run([tools / "grpcurl", *options], capture_output=True, text=True, timeout=60)

    assert "cuzk.v1.ProvingEngine" in ask("list").stdout.split()
    described = ask("describe").stdout
    assert "rpc SubmitProof ( .cuzk.v1.SubmitProofRequest ) returns ( .cuzk.v1.SubmitProofResponse );" in described
    state = json.loads(ask("cuzk.v1.ProvingEngine/GetStatus").stdout)
    assert [queue["proofKind"] for queue in state["queues"]][:2] == ["porep-c2", "snap-update"]
    request = (ROOT / "tests/data/2k/requests/window-post.json").read_text()
    made = json.loads(ask("cuzk.v1.ProvingEngine/SubmitProof", data=request).stdout)
    assert made["queuePosition"] == 1
    unknown = ask("cuzk.v1.ProvingEngine/AwaitProof", data='{"job_id": "never"}')
    assert "Code: NotFound" in unknown.stderr and "never [job_unknown]" in unknown.stderr

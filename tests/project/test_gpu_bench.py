"""bench/gpu.sh without a GPU says so and ends with a status of its own; what there is no time for is not measured."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from bench import gpu, proof, prove
from bench.asked import ASKED, NOT_MEASURED
from bench.proof import Plan
from tests.postgres import ROOT


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines[2:]]


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "has_nvidia_gpu", lambda: False)
    monkeypatch.delenv("CUZK_BENCH_PLATFORM", raising=False)


def test_without_a_gpu_every_row_says_not_measured(no_gpu: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert gpu.main() == gpu.NO_GPU == 3
    said = capsys.readouterr().out
    assert [row[:3] for row in rows(said)] == [[a.name, "no GPU here", NOT_MEASURED] for a in ASKED.values()]
    assert "no NVIDIA GPU here" in said


def test_what_there_is_no_time_for_is_told(
    no_gpu: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUZK_BENCH_PLATFORM", "cpu")
    monkeypatch.setenv("CUZK_BENCH_SECONDS", "0")
    assert gpu.main() == 1
    assert [row[1:3] for row in rows(capsys.readouterr().out)] == [["no time left", NOT_MEASURED]]


def test_a_step_is_ended_when_the_time_is_over() -> None:
    clock = gpu.Clock(time.monotonic() + 1.2)
    began = time.monotonic()
    assert subprocess.run(clock.limited(["sleep", "60"])).returncode == 124
    assert time.monotonic() - began < 30


PARTS = {"synthesis": 0.1, "device": 0.5, "tail": 0.4} | {
    f"[{name}]": 0.2 for name in ("transforms", "h", "l", "a", "b_g1", "b_g2", "assembly")
}


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, str]:
    """Shell words by kind that stand for the processes which prove; $1 is the step, $2 an answer to everything. Who is
    not there has no key either."""
    words: dict[str, str] = {}
    answer = json.dumps({"device": "H200", "whole_s": 1.05, "parts": PARTS, "peak_mib": 1024.0})

    def command(plan: Plan, step: str, cache: str) -> list[str]:
        return ["sh", "-c", words.get(plan.kind, "exit 4"), plan.kind, step, answer]

    def path(out: Path, kind: str) -> Path:
        return out if kind in words else out / "absent"

    monkeypatch.setattr(proof, "OUT", tmp_path)
    monkeypatch.setattr(proof, "command", command)
    monkeypatch.setattr(prove, "params_path", path)
    return words


ANSWERS = 'while read asked; do echo "$2"; done'


def test_a_process_that_fails_takes_no_other_circuit_with_it(
    processes: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    processes["window-post"] = 'read asked; echo "$2"; read asked; kill -9 $$'
    processes["winning-post"] = 'read asked; exec <&-; echo "$2"; exit 7'  # its end of the pipe is closed
    processes["porep-c2"] = ANSWERS
    monkeypatch.setattr(gpu, "has_nvidia_gpu", lambda: True)
    monkeypatch.delenv("CUZK_BENCH_PLATFORM", raising=False)
    monkeypatch.setenv("CUZK_BENCH_SECONDS", "50")  # too few for the peer
    assert gpu.main() == 1
    said = [row[1:3] for row in rows(capsys.readouterr().out)]
    assert said[0][0].startswith("failed: exit status ") and said[0][0].endswith(" when asked to prove")
    assert [row[0] for row in said[1:]] == [
        "failed: exit status 7 when asked to prove", "failed: exit status 4 while its key was made", "H200",
    ]  # fmt: skip
    assert [row[1] for row in said] == [NOT_MEASURED] * 3 + ["1.05 (1.05)"]


def test_proofs_whose_memory_there_was_no_time_to_ask_for_are_told(processes: dict[str, str]) -> None:
    answer = 'read asked; echo "$2" | sed s/peak_mib/other/;'
    processes["window-post"] = f"{answer} {answer} read asked"
    plan = Plan("window-post", None, gpu.PROOFS, False, None, "gpu")
    found = gpu.ours(plan, "", gpu.Clock(time.monotonic() + 1.9))
    row = dict(zip(gpu.HEAD, gpu._row("window-post", found, None), strict=True))
    assert row["s: best (median)"] == "1.05 (1.05)"
    assert (row["device memory"], row["of the process"]) == (NOT_MEASURED, NOT_MEASURED)


def test_a_row_has_the_phases_and_both_ratios() -> None:
    found = {
        "device": "H200", "proofs": [{"whole_s": 1.05, "parts": PARTS}], "peak_mib": 1024.0, "device_peak_mib": 2048.0,
    }  # fmt: skip
    row = dict(zip(gpu.HEAD, gpu._row("window-post", found, 2.1), strict=True))
    assert (row["device memory"], row["of the process"], row["device phase"][:5]) == ("2.00 GiB", "1.00 GiB", "0.50 ")
    assert gpu._row("window-post", found, 2.1)[-3:] == ["0.50", "2.10", "0.50"]


def test_the_script_runs_the_given_interpreter_within_five_minutes(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$@" in "$PWD" for "$CUZK_BENCH_SECONDS"\nexit 3\n')
    python.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if k != "CUZK_BENCH_SECONDS"} | {"PYTHON": str(python)}
    done = subprocess.run(
        ["bash", ROOT / "bench" / "gpu.sh"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    said, seconds = done.stdout.rsplit(" ", 1)
    assert (done.returncode, said) == (3, f"-m bench.gpu in {ROOT} for")
    assert 250 < int(seconds) <= 290

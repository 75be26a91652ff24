"""`cuzk bench`: the measures from recorded times, and a prover measured over its database."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from prover.commands import bench_measures as measures
from prover.commands.bench_load import arrivals
from prover.commands.exits import Exit
from prover.stack.roles import DAEMON
from tests.postgres import Database

from .running import DATA, cuzk

S = 1_000_000


def attempts() -> measures.Attempts:
    """Two workers of one device, one after the other, with a second between."""
    found = measures.Attempts()
    found.add("a/0/0", {"claimed": 1 * S, "device": 2 * S, "finalizing": 4 * S, "done": 9 * S})
    found.add("a/0/1", {"claimed": 3 * S, "device": 5 * S, "finishing": 6 * S, "done": 8 * S})
    return found


def test_gaps_are_what_lies_between_device_phases() -> None:
    assert measures.gaps(attempts()) == [measures.Gaps("a/0", 0.75, 1, 1.0)]


def test_what_was_shown_is_held_against_what_was_recorded() -> None:
    """A tail makes no worker busy, a synchronous one does; looks near to a change do not count."""
    both = frozenset({"a/0/0", "a/0/1"})

    def look(at_s: float, *proving: str) -> measures.Look:
        return measures.Look(int(at_s * S), frozenset(proving), both)

    true = [look(2, "a/0/0"), look(3.5, *both), look(7, "a/0/1"), look(10)]
    assert measures.truth(true, attempts()) == measures.Truth(8, 0, 0)
    assert measures.truth([look(4.1, "a/0/0")], attempts()).looks == 1, "a/0/0 had just handed off"
    assert measures.truth([look(7), look(5.5, *both)], attempts()) == measures.Truth(4, 1, 1)


def test_latency_and_waits_are_by_kind() -> None:
    jobs = [measures.JobTimes("window-post", "done", 0, S, n * S) for n in range(1, 101)]
    jobs.append(measures.JobTimes("winning-post", "failed", 0, None, S))
    assert measures.latencies(jobs)["window-post"] == measures.Percentiles(51, 96, 100, 100)
    assert measures.latencies(jobs)["winning-post"].count == 0
    assert measures.queue_waits(jobs)["window-post"].p99 == 1


def test_arrivals_have_their_rates_and_a_seed() -> None:
    found = arrivals([10, 1, 0], 100, seed=3)
    assert found == sorted(found) == arrivals([10, 1, 0], 100, seed=3) != arrivals([10, 1, 0], 100, seed=4)
    counts = [sum(number == which for _, number in found) for which in range(3)]
    assert 850 < counts[0] < 1150 and 60 < counts[1] < 140 and counts[2] == 0


def test_what_only_a_prover_answers_needs_its_address() -> None:
    for words in (("metrics",), ("preload", "-c", "winning-2k")):
        found = cuzk("bench", *words)
        assert found.returncode == Exit.REFUSED and "[needs_engine]" in found.stderr
    away = cuzk("bench", "--addr", "http://127.0.0.1:1", "metrics")
    assert away.returncode == Exit.UNAVAILABLE and "[engine_unreachable]" in away.stderr


def test_a_rate_is_a_kind_and_a_number() -> None:
    for rate in ("window-post", "window-post=0", "window-post=fast", "other=1"):
        assert "[rate_invalid]" in cuzk("bench", "mixed", "--rate", rate).stderr


@pytest.mark.postgres
@pytest.mark.acceptance
def test_a_prover_is_measured(database: Database, local: Path, cache: dict[str, str], tmp_path: Path) -> None:
    """Started by the bench for its run; real proofs; then one more through it, and none without any prover."""
    environment = cache | {"DATABASE_URL": database.url(DAEMON), "FIL_PROOFS_PARAMETER_CACHE": str(local)}
    svg = tmp_path / "phases.svg"
    words = ("--rate", "window-post=1.5", "--duration", 3, "--workers", 2, "--split", "on", "--json", "--svg", svg)
    run = cuzk("bench", "mixed", *words, env=environment, timeout=240)
    assert run.returncode == Exit.OK, run.stderr
    (report,) = json.loads(run.stdout)
    assert report["settings"] == {"workers": 2, "split": "on"}
    count = report["states"]["done"]
    assert set(report["states"]) == {"done"} and report["latency_s"]["window-post"]["count"] == count > 1
    assert (report["truth"]["false_idle"], report["truth"]["false_busy"]) == (0, 0) and report["truth"]["looks"] > 0
    assert 0 < report["devices"][0]["busy"] <= 1 and report["events_per_s"] > 1
    assert report["submit_ms"]["p50"] > 0 and report["round_trip_ms"]["p50"] > 0
    bars = ElementTree.parse(svg).findall("{http://www.w3.org/2000/svg}rect")
    assert len(bars) >= 1 + count
    nobody = cuzk("bench", "mixed", "--rate", "window-post=1", "--duration", 1, env=environment)
    assert nobody.returncode == Exit.REFUSED and "[no_prover]" in nobody.stderr


@pytest.mark.postgres
@pytest.mark.acceptance
def test_one_and_many_proofs(database: Database, local: Path, cache: dict[str, str], tmp_path: Path) -> None:
    """Over the database and over gRPC: cuzk-bench's figures."""
    environment = cache | {"DATABASE_URL": database.url(DAEMON), "FIL_PROOFS_PARAMETER_CACHE": str(local)}
    address = f"unix://{tmp_path}/cuzk.sock"
    settings = [f"daemon.spool={tmp_path}/spool", f"daemon.listen={address}", "daemon.allow_local_keys=true"]
    command = [sys.executable, "-m", "prover", "daemon", *(w for s in settings for w in ("--set", s))]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, env=environment, stderr=log) as process:
        try:
            request = DATA / "2k/requests/window-post.json"
            many = cuzk("bench", "batch", "--request", request, "-c", 3, "-j", 2, env=environment, timeout=240)
            assert many.returncode == Exit.OK, many.stderr
            assert many.stdout.count(": COMPLETED, ") == 3 and "3 completed, 0 failed" in many.stdout
            assert "proofs/min" in many.stdout
            one = cuzk("bench", "--addr", address, "single", "--request", request, env=environment, timeout=240)
            assert one.returncode == Exit.OK, one.stderr
            assert "status      COMPLETED" in one.stdout and "proof       192 bytes" in one.stdout
            assert "cuzk_proofs_completed_total 4" in cuzk("bench", "-a", address, "metrics").stdout
            assert "4 completed, 0 failed" in cuzk("bench", "-a", address, "status").stdout
        finally:
            process.terminate()
            process.wait(60)
    synthesis = cuzk("bench", "synth-only", "--request", request, "-n", 2, env=environment, timeout=120)
    assert synthesis.returncode == Exit.OK and "1 circuits of" in synthesis.stdout, synthesis.stderr

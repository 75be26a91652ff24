"""A sum over two processes, each with two devices: the same point in both, and what fails is said within a bound."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from prover import jaxconf
from prover.algebra.buckets import LONGEST
from prover.algebra.curve import G1, G2
from prover.algebra.mesh import DeviceMesh
from prover.jaxconf import CoordinatorUnreachable, Hosts
from tests.algebra.conftest import Curve
from tests.algebra.hosts_process import SHORT_S, bases, scalars

LIMIT_S = 120
SCRIPT = "tests.algebra.hosts_process"


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@contextlib.contextmanager
def processes(task: str, cache: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Both processes; none is left when the block ends."""
    words = [sys.executable, "-m", SCRIPT, f"127.0.0.1:{free_port()}"]
    started = [
        subprocess.Popen(
            [*words, str(n), task, str(cache)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for n in range(2)
    ]  # fmt: skip
    try:
        yield started
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.communicate()


@pytest.fixture(scope="module")
def cache(kept: Path) -> Path:
    return kept / "jax"


def said(process: subprocess.Popen[str]) -> tuple[list[list[str]], str]:
    out, errors = process.communicate(timeout=LIMIT_S)
    return [line.split() for line in out.splitlines() if line.startswith(("sum", "error"))], errors


def test_both_processes_have_the_sum_and_every_device_added_its_share(cache: Path) -> None:
    with processes("agree", cache) as both:
        (first, errors), (second, more) = map(said, both)
        assert [process.returncode for process in both] == [0, 0], errors + more
    finite = np.arange(len(bases(G1))) != 7
    for n, (group, kind) in enumerate([(G1, "bits"), (G1, "equal"), (G1, "random"), (G2, "random")]):
        wanted = [s for s, keep in zip(scalars(kind), finite, strict=True) if keep]
        expected = Curve(group).peer_msm(bases(group)[finite], wanted).hex()
        assert first[n][1] == second[n][1] == expected
        entries = [int(number) for line in (first[n], second[n]) for number in line[2:]]
        assert len(entries) == 4 and max(entries) - min(entries) <= LONGEST + 1
        assert sum(entries) >= sum(s != 0 for s in wanted)
        assert abs(sum(entries[:2]) - sum(entries[2:])) <= 1  # whatever the scalars


@pytest.mark.parametrize("task", ["killed", "frozen", "differ"])
def test_who_is_left_gets_an_error_and_no_point(task: str, cache: Path) -> None:
    with processes(task, cache) as both:
        lines, errors = said(both[0])
        assert [line[0] for line in lines] == ["sum", "error"], errors
        assert lines[1][1] == ("hosts_disagree" if task == "differ" else "host_lost")
        assert both[0].returncode == 1


def test_when_the_first_process_dies_the_other_ends(cache: Path) -> None:
    """By our error, or by JAX, which ends a process that has lost its coordinator: whichever is seen first."""
    with processes("first killed", cache) as both:
        lines, errors = said(both[1])
        assert [line[0] for line in lines][:1] == ["sum"] and both[1].returncode not in (0, None)
        assert lines[1:] == [["error", "host_lost"]] or "JAX distributed service detected fatal errors" in errors


def test_a_coordinator_that_does_not_answer_is_an_error_in_time() -> None:
    began = time.monotonic()
    with pytest.raises(CoordinatorUnreachable, match="refused"):
        Hosts(f"127.0.0.1:{free_port()}", 2, 1, patience_s=1).meet("cpu")
    assert time.monotonic() - began < SHORT_S


def test_entries_are_cut_for_the_processes_to_one() -> None:
    mesh = DeviceMesh.of(jaxconf.devices("cpu"))
    assert mesh.own(7) == slice(0, 7) and mesh.own(0) == slice(0, 0)

"""Services are started again when they end, and nothing outlives them or us."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from itertools import pairwise
from pathlib import Path

import pytest

from prover.stack.errors import StackFailed
from prover.stack.supervise import MAX_DEATHS, Service, run
from tests.postgres import ROOT
from tests.stack.test_postgres import alive, gone


def service(tmp_path: Path, script: str, grace_s: float = 5.0) -> Service:
    return Service("thing", ["sh", "-c", script], tmp_path / "thing.log", os.environ, grace_s=grace_s)


def pids(file: Path) -> list[int]:
    deadline = time.monotonic() + 10
    while not (file.exists() and len(file.read_text().split()) >= 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [int(word) for word in file.read_text().split()]


def test_started_again_when_it_ends(tmp_path: Path) -> None:
    thing = service(tmp_path, "echo born; exec sleep 100")
    thing.start()
    first = thing.pid
    assert not thing.keep_alive()
    os.kill(first, signal.SIGKILL)
    while not thing.keep_alive():
        time.sleep(0.01)
    assert thing.pid != first
    assert alive(thing.pid)
    last = thing.pid
    thing.stop()
    assert gone(last) and thing.pid is None


def test_gives_up_on_what_ends_at_once(tmp_path: Path) -> None:
    thing = service(tmp_path, "echo the reason; exit 3")
    thing.start()
    with pytest.raises(StackFailed, match=rf"ended {MAX_DEATHS} times \(status 3\):\n(the reason\n?){{{MAX_DEATHS}}}"):
        while True:
            thing.keep_alive()
            time.sleep(0.01)


def test_what_may_rest_is_started_again_later(tmp_path: Path) -> None:
    thing = Service("thing", ["sh", "-c", "exit 3"], tmp_path / "thing.log", os.environ, rest_s=0.5)
    thing.start()
    starts: list[float] = []
    while len(starts) < MAX_DEATHS + 1:
        if thing.keep_alive():
            starts.append(time.monotonic())
        time.sleep(0.005)
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert max(gaps) == gaps[MAX_DEATHS - 2] >= 0.5
    thing.stop()


def test_stops_the_whole_group_even_when_it_will_not(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    thing = service(tmp_path, f"trap '' TERM; sleep 100 & echo $$ $! > {file}; sleep 101", grace_s=0.3)
    thing.start()
    both = pids(file)
    thing.stop()
    assert all(gone(pid) for pid in both)


def test_run_gives_stdout_and_says_why_it_failed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert run("it", ["sh", "-c", "echo answer; echo noise >&2"], log, os.environ) == "answer\n"
    assert log.read_text() == "noise\n"
    with pytest.raises(StackFailed, match="it failed \\(status 2\\):\nnoise\nbroken"):
        run("it", ["sh", "-c", "echo broken >&2; exit 2"], log, os.environ)


PARENT = """
    import os, sys, time
    from pathlib import Path
    from prover.stack.supervise import Service
    script = "trap '' TERM INT; echo $$ $PPID > pids; while :; do sleep 1; done"
    Service("x", ["sh", "-c", script], Path("log"), os.environ).start()
    time.sleep(100)
"""


def test_dies_with_us(tmp_path: Path) -> None:
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(PARENT)], cwd=tmp_path, env=env) as parent:
        child, its_parent = pids(tmp_path / "pids")
        assert its_parent == parent.pid
        parent.kill()
    assert gone(child)

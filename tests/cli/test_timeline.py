"""`cuzk timeline`: the original's lines, from what a real journal recorded."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover.commands.exits import Exit
from prover.stack.roles import DAEMON
from prover.states import Attempt, Entity, Transition
from prover.timeline import timeline
from tests.journal.helpers import Prover, running, submit_one
from tests.postgres import Database

from .running import cuzk


def moves(*states: Attempt) -> Iterator[tuple[str, Transition]]:
    """An attempt that enters a state each 10 ms."""
    for n, state in enumerate(states, 1):
        yield "porep-1", Transition(
            "s", n, 1_000_000 + 10_000 * n, 0, Entity.ATTEMPT, "j:3:1", "", state, "j", 3, 1, "a/0/1"
        )  # fmt: skip


@pytest.mark.parametrize("tail", [Attempt.FINALIZING, Attempt.FINISHING])
def test_the_lines_of_an_attempt(tail: Attempt) -> None:
    path = (Attempt.PENDING, Attempt.RESERVED, Attempt.SYNTHESIZING, Attempt.READY, Attempt.CLAIMED)
    found = list(timeline(moves(*path, Attempt.DEVICE_WAIT, Attempt.DEVICE, tail, Attempt.DONE), 1_000_000))
    assert found == [
        "TIMELINE,30,SYNTH_START,porep-1,partition=3",
        "TIMELINE,40,SYNTH_END,porep-1,partition=3,synth_ms=10",
        "TIMELINE,40,GPU_QUEUE,porep-1,partition=3",
        "TIMELINE,50,GPU_PICKUP,porep-1,worker=0/1,partition=3",
        "TIMELINE,70,GPU_START,porep-1,worker=0/1,partition=3",
        "TIMELINE,80,GPU_END,porep-1,worker=0/1,partition=3,gpu_ms=10",
    ]


@pytest.fixture
def prover(database: Database, tmp_path: Path) -> Iterator[Prover]:
    """Two jobs are done, of 2 partitions each."""
    with running(database, tmp_path) as prover:
        for name in ("first", "second"):
            submit_one(database, request_id=name, partitions=2)
            prover.prove(prover.take()[0])
        assert prover.journal.flush()
        yield prover


@pytest.mark.postgres
def test_of_a_job_and_of_a_session(prover: Prover, database: Database) -> None:
    environment = os.environ | {"DATABASE_URL": database.url(DAEMON)}
    one = cuzk("timeline", "second", env=environment).stdout.splitlines()
    assert len(one) == 12 and all(re.fullmatch(r"TIMELINE,\d+,[A-Z_]+,second,.+", line) for line in one)
    both = cuzk("timeline", "--prover", "prover-a", env=environment).stdout.splitlines()
    assert len(both) == 24 and {line.split(",")[3] for line in both} == {"first", "second"}
    times = [int(line.split(",")[1]) for line in both]
    assert times == sorted(times)


@pytest.mark.postgres
def test_what_is_not_there(database: Database) -> None:
    environment = os.environ | {"DATABASE_URL": database.url(DAEMON)}
    nobody = cuzk("timeline", env=environment)
    assert nobody.returncode == Exit.BAD_INPUT and "[prover_unknown]" in nobody.stderr
    unknown = cuzk("timeline", "never", env=environment)
    assert unknown.returncode == Exit.REFUSED and "[job_unknown]" in unknown.stderr

"""A key that somebody makes for minutes: its jobs wait, and no thread, worker or other job waits with them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from prover.filecoin.shapes import ProofKind, post_shape
from prover.groth16.errors import KeyNotFound
from prover.groth16.making import is_being_made, making
from prover.groth16.store import KeyStore
from prover.pipeline import jobs
from prover.pipeline.engine import LOADERS
from prover.pipeline.filecoin import FilecoinKind, KindSettings
from prover.pipeline.kinds import KeyAwaited
from prover.states import Entity
from tests.pipeline.controlled import PATIENCE_S, Rig
from tests.pipeline.test_post import request

SHOWN = "prover:key:k@awaited"


class Maker:
    """Somebody who makes the key of a rig's jobs whose names begin with `k`."""

    def __init__(self, rig: Rig) -> None:
        self.makes = True
        self.fails: BaseException | None = None
        self.loads: list[str] = []
        self._load = rig.kind.load
        rig.kind.load = self.load  # type: ignore[method-assign]

    def load(self, content: bytes) -> Sequence[Any]:
        works = self._load(content)
        self.loads.append(works[0].job)
        return self._with_key(works) if works[0].job.startswith("k") else works

    def _with_key(self, works: Sequence[Any]) -> Sequence[Any]:
        if self.makes:
            raise KeyAwaited("k", "some circuit", lambda: self.makes, lambda: self._with_key(works))
        if self.fails is not None:
            raise self.fails
        return works


def await_waiting(rig: Rig, maker: Maker, count: int) -> None:
    """Until so many jobs wait for the key."""
    rig.await_that(lambda: len(rig.engine.book._runs) >= count)
    deadline = threading.Event()
    for _ in range(int(PATIENCE_S * 100)):
        if sum(run.awaited is not None for run in list(rig.engine.book._runs.values())) == count:
            return
        deadline.wait(0.01)
    raise AssertionError("they never waited")


def test_more_jobs_than_loaders_wait_and_another_is_proved_meanwhile() -> None:
    names = [f"k{n}" for n in range(LOADERS + 3)]
    with Rig() as rig:
        maker = Maker(rig)
        for name in names:
            rig.submit(name, 2)
        await_waiting(rig, maker, len(names))
        rig.submit("other", 3)
        rig.await_job("other", "done")
        assert {rig.states(Entity.JOB, name)[-1] for name in names} == {"loading"}
        assert rig.activity(0) == rig.activity(1) == "idle"
        assert rig.states(Entity.HOLDING, SHOWN) == ["loading"]
        assert rig.view(Entity.HOLDING, SHOWN).detail["name"] == "some circuit, being made: jobs wait for it"
        maker.makes = False
        for name in names:
            rig.await_job(name, "done")
        assert sorted(maker.loads) == sorted([*names, "other"]), "no request is parsed twice"
        assert rig.states(Entity.HOLDING, SHOWN) == ["loading", "evicted"]
    assert not rig.anomalies and rig.state().ended == {"controlled done": len(names) + 1}


def test_a_bound_on_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it they stay in the queue, where other provers find them."""
    monkeypatch.setattr(jobs, "MAX_AWAITING", 2)
    with Rig(workers_per_device=1) as rig:
        maker = Maker(rig)
        for n in range(8):
            rig.submit(f"k{n}")
        await_waiting(rig, maker, 3)  # the bound, and one worker's
        assert len(rig.source.jobs) == 5
        maker.makes = False
        for n in range(8):
            rig.await_job(f"k{n}", "done")


def test_a_key_that_was_not_made_fails_the_jobs_that_waited() -> None:
    with Rig() as rig:
        maker = Maker(rig)
        maker.fails = KeyNotFound("nobody made it")
        rig.submit("k")
        await_waiting(rig, maker, 1)
        maker.makes = False
        rig.await_job("k", "failed")
    assert rig.view(Entity.JOB, "k").detail["error_code"] == "key_not_found"


@pytest.mark.parametrize("how", ["cancel", "drain"])
def test_a_job_that_waits_is_cancelled_or_given_back_at_once(how: str) -> None:
    with Rig() as rig:
        maker = Maker(rig)
        rig.submit("k")
        await_waiting(rig, maker, 1)
        if how == "cancel":
            rig.command("cancel", "k")
        else:
            assert rig.engine.drain(0)
        assert rig.states(Entity.HOLDING, SHOWN) == ["loading", "evicted"]
        assert rig.states(Entity.JOB, "k") == ["queued", "loading", "cancelled" if how == "cancel" else "queued"]
        maker.makes = False
        rig.engine.book.look_for_keys()
    assert rig.states(Entity.JOB, "k")[-1] != "running" and not rig.anomalies


def test_the_real_kinds_say_that_a_key_is_being_made(tmp_path: Path) -> None:
    kind = FilecoinKind(ProofKind.WINDOW_POST, KindSettings(KeyStore(tmp_path)))
    name = post_shape(ProofKind.WINDOW_POST, 2048).key_name
    with making(tmp_path, name):
        assert is_being_made(tmp_path, name)
        with pytest.raises(KeyAwaited) as caught:
            kind.load(request())
        assert caught.value.still()
        with pytest.raises(KeyAwaited):
            caught.value.then()
    assert not caught.value.still() and not is_being_made(tmp_path, name)
    with pytest.raises(KeyNotFound):
        caught.value.then()
    (tmp_path / f"{name}.params").touch()
    assert [work.index for work in caught.value.then()] == [0]

"""Commands: they act between attempts, each is executed once and answered."""

from __future__ import annotations

from prover.pipeline.engine import Wish
from prover.states import Admin, Entity
from tests.pipeline.controlled import Rig

W0, W1 = "prover/0/0", "prover/0/1"


def test_a_paused_worker_finishes_what_it_does_and_takes_nothing_new() -> None:
    with Rig(workers_per_device=1) as rig:
        device = rig.gate("start", "a", 0)
        rig.submit("a", 2)
        device.await_arrival()
        outcome = rig.command("pause", W0)
        assert outcome is not None and outcome.startswith("paused")
        assert rig.activity(0) == "proving"
        device.open()
        rig.await_attempt("a:0:1", "done")
        rig.await_attempt("a:1:1", "ready")
        assert rig.activity(0) == "paused" and rig.attempt("a:1:1")[-1] == "ready"
        rig.command("resume", W0)
        rig.await_job("a", "done")
    assert not rig.anomalies


def test_the_other_workers_go_on() -> None:
    with Rig() as rig:
        rig.command("pause", W0)
        rig.submit("a", 4)
        rig.await_job("a", "done")
        assert {view.worker for _, view in rig.state().attempts("a")} == {W1}
        rig.command("resume", W0)


def test_a_draining_worker_is_drained_when_its_tail_has_ended() -> None:
    with Rig(workers_per_device=1) as rig:
        tail = rig.gate("finish", "a")
        rig.submit("a")
        tail.await_arrival()
        rig.await_attempt("a:0:1", "finalizing")
        rig.command("drain", W0)
        assert rig.activity(0) == "finalizing"
        tail.open()
        rig.await_job("a", "done")
        assert rig.activity(0) == "drained"


def test_nothing_is_claimed_while_no_worker_takes_work() -> None:
    with Rig(workers_per_device=1) as rig:
        rig.command("disable", W0)
        rig.submit("a")
        rig.engine.wake()
        rig.command("enable", W0)
        rig.await_job("a", "done")
    disabled = next(t.seq for t in rig.log if t.new == "disabled")
    enabled = next(t.seq for t in rig.log if t.entity is Entity.ADMIN and t.new == "enabled")
    claimed = next(t.seq for t in rig.log if t.new == "loading" and t.entity is Entity.JOB)
    assert disabled < enabled < claimed


def test_wishes_of_earlier_sessions_hold_from_the_start() -> None:
    rig = Rig(workers_per_device=1)
    rig.engine.start({"prover": "prover"}, {W0: Wish(Admin.PAUSED, 1)})
    assert rig.state().admin(W0) == Admin.PAUSED
    assert not rig.states(Entity.ADMIN, W0), "it is no move of this session"
    rig.submit("a")
    rig.command("resume", W0)
    rig.await_job("a", "done")
    rig.engine.stop()


def test_commands_are_answered_once() -> None:
    with Rig() as rig:
        assert rig.command("pause", W0, "one") == "paused: it finishes what it does and takes nothing new"
        assert rig.command("pause", W0, "two") == "was paused already"
        rig.command("pause", W0, "one")
        assert rig.states(Entity.COMMAND, "one") == ["taken", "done"]
        rig.command("resume", W0)
    assert not rig.anomalies


def test_what_cannot_be_done_is_refused_with_the_reason() -> None:
    with Rig() as rig:
        assert "no such worker" in (rig.command("pause", "prover/7/0") or "")
        assert "no such job" in (rig.command("cancel", "nobody") or "")
        assert "no such action" in (rig.command("bake", W0, "cake") or "")
        assert rig.states(Entity.COMMAND, "cake") == ["taken", "refused"]


# -- cancel ----------------------------------------------------------------------------------------------------------


def test_a_cancelled_job_lets_what_runs_run_out_and_drops_it() -> None:
    with Rig(workers_per_device=1) as rig:
        tail, device = rig.gate("finish", "a", 0), rig.gate("start", "a", 1)
        rig.submit("a", 4)
        device.await_arrival()
        tail.await_arrival()
        rig.await_attempt("a:2:1", "ready")
        rig.command("cancel", "a")
        assert rig.attempt("a:2:1")[-1] == "cancelled"
        state = rig.state()
        assert state.activity(W0) == "proving" and state.finalizing(W0) == ("a:0:1",)
        tail.open()
        rig.await_attempt("a:0:1", "cancelled")
        assert rig.activity(0) == "proving"
        device.open()
        rig.await_attempt("a:1:1", "cancelled")
        assert rig.activity(0) == "idle"
        rig.submit("b")
        rig.await_job("b", "done")
    assert not rig.results.proofs["a", 0] and not rig.results.deliveries["a"]
    assert rig.state().gauges()["open_attempts"] == 0
    assert rig.state().ended == {"controlled cancelled": 1, "controlled done": 1}
    assert not rig.anomalies


def test_a_job_is_cancelled_while_it_is_loaded_or_verified() -> None:
    with Rig() as rig:
        loading, verifying = rig.gate("load", "a"), rig.gate("verify_delivery", "b")
        rig.submit("a")
        loading.await_arrival()
        rig.command("cancel", "a")
        loading.open()
        rig.submit("b")
        verifying.await_arrival()
        rig.command("cancel", "b")
        verifying.open()
        rig.submit("c")
        rig.await_job("c", "done")
    assert rig.states(Entity.JOB, "a")[-1] == rig.states(Entity.JOB, "b")[-1] == "cancelled"
    assert not rig.results.deliveries["b"] and not rig.anomalies


def test_a_synthesis_is_cancelled_at_its_end() -> None:
    with Rig() as rig:
        synthesis = rig.gate("synthesize", "a")
        rig.submit("a")
        synthesis.await_arrival()
        rig.command("cancel", "a")
        assert rig.attempt("a:0:1")[-1] == "synthesizing"
        synthesis.open()
        rig.await_attempt("a:0:1", "cancelled")
    assert not rig.anomalies

"""Commands: they act between attempts, each is executed once and answered."""

from __future__ import annotations

import threading

import pytest

from prover.pipeline.engine import Wish
from prover.states import WISHES, WORKER_ACTIONS, Action, Admin, Entity, action_refusal, legal, offered
from tests.pipeline.controlled import PATIENCE_S, Died, Rig, claiming

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
        assert "no such action" in (rig.command("bake", W0, "cake") or "")
        assert rig.states(Entity.COMMAND, "cake") == ["taken", "refused"]


@pytest.mark.parametrize("action", WORKER_ACTIONS)
def test_every_action_of_a_worker_is_executed_here(action: Action) -> None:
    with Rig(workers_per_device=1) as rig:
        wish = next(admin for admin in Admin if action in offered(admin))
        if wish is not Admin.ENABLED:
            rig.tracker.set_admin(W0, wish, by="olga")
        outcome = rig.command(action, W0)
        assert outcome is not None and "no such action" not in outcome
        assert rig.state().admin(W0) == WISHES.get(action, wish)


@pytest.mark.parametrize("action", WORKER_ACTIONS)
@pytest.mark.parametrize("admin", Admin)
def test_what_is_offered_is_legal_and_the_rest_is_refused_in_words(action: Action, admin: Admin) -> None:
    wanted = WISHES.get(action)
    assert (action in offered(admin)) == (action_refusal(action, admin) is None)
    if action in offered(admin):
        assert wanted is None or legal(Entity.ADMIN, admin, wanted)
    elif admin == wanted:
        assert action_refusal(action, admin) == f"it is {admin.value} already"
    else:
        assert all(other.value in str(action_refusal(action, admin)) for other in offered(admin))


def test_a_disabled_worker_is_brought_back_by_enable_alone() -> None:
    with Rig(workers_per_device=1) as rig:
        rig.command("disable", W0)
        assert rig.activity(0) == "disabled"
        for action in ("resume", "pause", "drain"):
            assert rig.command(action, W0) == "action: it is disabled; from there one can enable or restart it"
        rig.submit("a")
        rig.command("restart", W0)
        rig.await_that(lambda: rig.view(Entity.WORKER, W0).detail["epoch"] == 2)
        assert rig.activity(0) == "disabled" and not rig.states(Entity.JOB, "a")
        assert rig.command("enable", W0) == "takes work again"
        rig.await_job("a", "done")


# -- restart ---------------------------------------------------------------------------------------------------------

LOOPS = {"split": {}, "synchronous": {"split": False}, "monolithic": {"pipeline": False}}


def epochs(rig: Rig) -> list[tuple[str, str | None, int]]:
    """What the log says of W0's lives."""
    return [(t.new, t.reason, t.detail.get("epoch", 0)) for t in rig.log
            if t.entity is Entity.WORKER and t.entity_id == W0]  # fmt: skip


RENEWED = [("starting", None, 1), ("online", None, 1), ("stopped", "restart", 0), ("online", None, 2)]


@pytest.mark.parametrize("options", LOOPS.values(), ids=LOOPS)
def test_an_idle_worker_is_restarted_at_once(options: dict[str, bool]) -> None:
    with Rig(workers_per_device=1, **options) as rig:
        rig.await_that(lambda: len(epochs(rig)) == 2)
        before = rig.engine._workers[0].supervised.thread
        assert "next epoch" in (rig.command("restart", W0) or "")
        rig.await_that(lambda: len(epochs(rig)) == 4)
        assert epochs(rig) == RENEWED
        assert rig.engine._workers[0].supervised.thread is not before
        rig.submit("a", 3)
        rig.await_job("a", "done")
    assert not rig.anomalies


@pytest.mark.parametrize("options", LOOPS.values(), ids=LOOPS)
def test_a_busy_worker_is_restarted_after_the_partition_that_it_has(options: dict[str, bool]) -> None:
    with Rig(workers_per_device=1, **options) as rig:
        device = rig.gate("start", "a", 0)
        rig.submit("a", 3)
        device.await_arrival()
        rig.command("restart", W0)
        rig.command("restart", W0)
        assert rig.activity(0) == "proving" and len(epochs(rig)) == 2
        device.open()
        rig.await_job("a", "done")
        assert epochs(rig) == RENEWED
    stopped = next(n for n, t in enumerate(rig.log) if t.reason == "restart")
    claims = {t.partition: n for n, t in enumerate(rig.log) if t.new == "claimed"}
    ended = next(n for n, t in enumerate(rig.log) if t.partition == 0 and t.new in ("finalizing", "done"))
    assert claims[0] < ended < stopped < min(claims[1], claims[2])
    assert not rig.anomalies and rig.state().ended == {"controlled done": 1}


def test_the_tails_of_a_restarted_worker_run_on() -> None:
    with Rig(workers_per_device=1) as rig:
        tails = [rig.gate("finish", "a", n) for n in range(2)]
        rig.submit("a", 3)
        for tail in tails:
            tail.await_arrival()
        rig.command("restart", W0)  # both places for tails are taken: it waits for one of them
        tails[0].open()
        rig.await_that(lambda: len(epochs(rig)) == 4)
        assert "a:1:1" in rig.state().finalizing(W0)
        tails[1].open()
        rig.await_job("a", "done")
    assert not rig.anomalies


def test_a_worker_that_dies_while_it_shall_restart_comes_back_once() -> None:
    with Rig(workers_per_device=1) as rig:
        rig.kind.errors["start", "a", 0] = [Died("broken")]
        before = rig.gate("prepare", "a")
        rig.submit("a")
        before.await_arrival()
        rig.command("restart", W0)
        before.open()
        rig.await_job("a", "done")
        assert [new for new, _, _ in epochs(rig)] == ["starting", "online", "lost", "online"]
    assert not rig.anomalies


def test_restarts_while_everything_goes_on_and_stops() -> None:
    """However they fall: nothing is proved twice, lost, or said out of turn."""
    with Rig(devices=2) as rig:
        stop = threading.Event()

        def bother() -> None:
            number = 0
            while not stop.wait(0.001):
                number += 1
                rig.command("restart", f"prover/{number % 2}/{number // 2 % 2}", f"restart {number}")

        bothering = threading.Thread(target=bother)
        bothering.start()
        for number in range(12):
            rig.submit(f"job-{number}", 5)
        for number in range(12):
            rig.await_job(f"job-{number}", "done")
        assert rig.engine.drain(PATIENCE_S)
        rig.engine._close()
        stop.set()
        bothering.join()
    assert rig.state().ended == {"controlled done": 12}
    assert all(len(proofs) == 1 for proofs in rig.results.proofs.values())
    assert any(t.reason == "restart" for t in rig.log) and not rig.anomalies


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


@pytest.mark.parametrize("wishes", [1, 2])
def test_a_job_is_cancelled_between_its_claim_and_its_admission(wishes: int) -> None:
    with Rig() as rig:
        claim = claiming(rig)
        rig.submit("a", 3)
        claim.await_arrival()
        for n in range(wishes):
            assert rig.command("cancel", "a", f"wish {n}") is None
        claim.open()
        rig.await_job("a", "cancelled")
        rig.submit("b")
        rig.await_job("b", "done")
        assert rig.states(Entity.JOB, "a") == ["queued", "loading", "cancelled"]
        assert rig.states(Entity.COMMAND, "wish 0") == ["taken", "done"]
        assert all(rig.states(Entity.COMMAND, f"wish {n}") == ["taken", "refused"] for n in range(1, wishes))
    assert ("load", "a", 0) not in rig.kind.order and not list(rig.state().attempts("a"))
    assert rig.state().ended == {"controlled cancelled": 1, "controlled done": 1}
    assert not rig.anomalies


def test_a_wish_for_a_job_that_fails_at_its_admission_is_refused() -> None:
    with Rig() as rig:
        claim = claiming(rig)
        rig.submit("a", losses=3)
        claim.await_arrival()
        assert rig.command("cancel", "a", "wish") is None
        claim.open()
        rig.await_state(Entity.COMMAND, "wish", "refused")
    assert rig.states(Entity.JOB, "a")[-1] == "failed" and not rig.anomalies


def test_a_wish_for_a_job_that_was_given_back_is_left_to_the_database() -> None:
    """Refused, it would be lost, and the next session would prove the job."""
    with Rig(workers_per_device=1) as rig:
        loading = rig.gate("load", "a")
        rig.submit("a")
        loading.await_arrival()
        rig.engine.drain(0)
        assert rig.command("cancel", "a", "wish") is None
        loading.open()
    assert rig.states(Entity.JOB, "a")[-1] == "queued" and not rig.states(Entity.COMMAND, "wish")


def test_a_wish_for_a_job_that_has_ended_is_refused() -> None:
    with Rig() as rig:
        rig.submit("a")
        rig.await_job("a", "done")
        assert rig.command("cancel", "a", "wish") == "target: it had ended before"
        assert rig.states(Entity.COMMAND, "wish") == ["taken", "refused"]

"""What each condition finds in rows as a prover writes them; how alerts open, go on, are said again, and close."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from cuzk_web.alerts import evaluation
from cuzk_web.alerts.conditions import MEANINGS, Condition
from cuzk_web.alerts.evaluation import evaluate
from cuzk_web.alerts.facts import MOST, facts
from cuzk_web.alerts.models import Alert, Channel, Evaluation, Notification, Rule
from cuzk_web.fleet.models import Anomaly, Device, Job, Session, Worker
from tests.web.facts import attempt, done_job, job, session, worker

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

NOW = datetime.now(UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def rule(condition: Condition, **fields: Any) -> Rule:
    found = Rule.objects.get(condition=condition.value)
    for name, value in fields.items():
        setattr(found, name, value)
    found.save()
    return found


def found(condition: Condition, after_s: float = 0, **fields: Any) -> dict[str, str]:
    """key -> title of what the rule finds so many seconds from now."""
    return {fact.key: fact.title for fact in facts(rule(condition, **fields), NOW + timedelta(seconds=after_s))}


def failed(code: str = "device_failed", ended_s: float = 10, **fields: Any) -> Job:
    more = {"error_code": code, "error_message": "the device failed", "started_at": ago(60)}
    return job(state="failed", ended_at=ago(ended_s), submitted_at=ago(100), **(more | fields))


def test_there_is_a_rule_for_each_condition() -> None:
    assert {one.condition: one.enabled for one in Rule.objects.all()} == {one.value: True for one in Condition}
    assert set(MEANINGS) == set(Condition)


@pytest.mark.parametrize("condition", Condition)
def test_nothing_is_found_in_a_fleet_that_works(condition: Condition) -> None:
    by = worker(session(tick_at=NOW))
    done_job(submitted_at=ago(60), started_at=ago(50), ended_at=ago(20))
    attempt(job(state="running"), by, {"pending": 0, "claimed": 1, "device": 2})
    connection.cursor().execute("UPDATE attempt SET state_at = now()")
    assert not found(condition)


def test_failed_jobs_by_kind_and_cause() -> None:
    failed()
    newest = failed(ended_s=5, request_id="wdpost-1-2-3")
    failed("proof_refused", kind="porep-c2")
    failed(ended_s=3600)
    keys = {"window-post device_failed", "porep-c2 proof_refused"}
    assert set(found(Condition.FAILED_JOB)) == keys
    (fact,) = (f for f in facts(rule(Condition.FAILED_JOB), NOW) if f.key == "window-post device_failed")
    assert (fact.title, fact.count) == ("2 WindowPoSt jobs failed: device_failed", 2)
    assert fact.link == f"/jobs/{newest.id}/" and "wdpost-1-2-3: the device failed" in fact.text
    assert set(found(Condition.FAILED_JOB, kind="porep-c2")) == {"porep-c2 proof_refused"}


def test_a_lost_prover_until_it_is_back_or_a_day_has_passed() -> None:
    session("alpha", state="lost", started_at=ago(500), ended_at=ago(400), reason="lease_expired")
    session("beta", state="stopped", started_at=ago(500), ended_at=ago(400))
    session("gamma", state="lost", started_at=ago(999_999), ended_at=ago(90_000))
    assert found(Condition.LOST_PROVER) == {"prover alpha": "Prover alpha is lost"}
    session("alpha", started_at=ago(10))
    assert not found(Condition.LOST_PROVER)


def test_a_device_or_worker_that_a_living_prover_lost() -> None:
    by = worker(session())
    Worker.objects.update(state="lost", reason="device_failed")
    assert found(Condition.LOST_PROVER) == {"worker alpha/0/0": "Worker W0 (alpha/0/0) is lost"}
    Device.objects.update(state="lost")
    assert "device alpha/0" in found(Condition.LOST_PROVER)
    Session.objects.filter(pk=by.session_id).update(state="stopped")
    assert not found(Condition.LOST_PROVER)


def stuck(after_s: float, usual_s: float | None) -> dict[str, str]:
    """What is found of a partition on a device for `after_s`, where it usually takes `usual_s`."""
    by = worker(session(tick_at=NOW + timedelta(seconds=after_s)))
    if usual_s is not None:
        past = done_job(submitted_at=ago(60))
        attempt(past, by, {"pending": 0, "device": 1, "finalizing": 1 + usual_s, "done": 9 + usual_s})
    held = attempt(job(state="running"), by, {"pending": 0, "device": 1})
    type(held).objects.filter(pk=held.pk).update(state_at=NOW)
    return found(Condition.STUCK_WORKER, after_s)


@pytest.mark.parametrize(
    ("after_s", "usual_s", "is_stuck"),
    [(119, 1, False), (121, 1, True), (121, 30, False), (151, 30, True), (599, None, False), (601, None, True)],
)
def test_no_progress_is_judged_by_how_long_the_phase_usually_takes(
    after_s: float, usual_s: float | None, is_stuck: bool
) -> None:
    titles = list(stuck(after_s, usual_s).values())
    assert bool(titles) == is_stuck
    assert not titles or titles[0].startswith("alpha/0/0: no progress for ")


def test_an_engine_that_does_not_answer() -> None:
    session(tick_at=ago(61))
    assert set(found(Condition.STUCK_WORKER)) == {"engine alpha"}


def test_a_deadline_at_risk_by_the_clock_or_by_what_partitions_take() -> None:
    near = job(deadline=NOW + timedelta(seconds=299))
    job(deadline=NOW + timedelta(seconds=900), partitions=10)
    job(deadline=ago(5))
    assert set(found(Condition.DEADLINE_AT_RISK)) == {str(near.id)}
    done_job(started_at=ago(300), ended_at=ago(200), submitted_at=ago(400))
    assert len(found(Condition.DEADLINE_AT_RISK)) == 2


def test_a_missed_deadline_while_it_is_open_and_when_it_ended_late() -> None:
    late = job(deadline=ago(60), request_id="late")
    ended = done_job(deadline=ago(60), ended_at=ago(20), submitted_at=ago(100))
    done_job(deadline=ago(60), ended_at=ago(70), submitted_at=ago(100))
    done_job(deadline=ago(9000), ended_at=ago(8000), submitted_at=ago(9999))
    titles = found(Condition.DEADLINE_MISSED)
    assert set(titles) == {str(late.id), str(ended.id)} and titles[str(late.id)] == "late missed its deadline"


def test_an_old_queue() -> None:
    job(state_at=ago(1801))
    job(state_at=ago(10))
    job(state_at=ago(10), kind="porep-c2")
    (title,) = found(Condition.QUEUE_AGE).values()
    assert title == "WindowPoSt: the oldest of 2 queued jobs waits for 30m 01s"
    assert set(found(Condition.QUEUE_AGE, seconds=5)) == {"window-post", "porep-c2"}


@pytest.mark.parametrize("text", ["RESOURCE_EXHAUSTED: Out of memory allocating", "CUDA out of memory"])
def test_attempts_that_found_no_memory(text: str) -> None:
    by = worker(session())
    made = attempt(job(), by, {"pending": 0, "failed": 1}, reason="device_failed", detail={"error": text})
    type(made).objects.update(state_at=ago(5))
    assert found(Condition.OUT_OF_MEMORY) == {"alpha/0": "alpha/0: out of memory once"}
    assert not found(Condition.REFUSED_PROOF)


def test_proofs_that_do_not_verify_by_device() -> None:
    by = worker(session())
    for number in (1, 2):
        attempt(job(), by, {"pending": 0, "failed": 1}, number=number, reason="proof_refused")
    connection.cursor().execute("UPDATE attempt SET state_at = now()")
    assert found(Condition.REFUSED_PROOF) == {"alpha/0": "alpha/0: proofs that do not verify, 2 times"}


def test_a_prover_that_fell_back_to_the_cpu() -> None:
    session(state="stopped", started_at=ago(5000), ended_at=ago(100), detail={"platform": "gpu"})
    assert not found(Condition.CPU_FALLBACK)
    session(started_at=ago(50), detail={"platform": "cpu"})
    session("beta", detail={"platform": "cpu"})
    assert set(found(Condition.CPU_FALLBACK)) == {"alpha"}


def test_a_quarantined_worker() -> None:
    worker(session(), admin="quarantined", admin_reason="three deaths in a row")
    assert found(Condition.QUARANTINED_WORKER) == {"alpha/0/0": "W0 (alpha/0/0) is in quarantine"}


def odd(code: str = "dup_end", **fields: Any) -> None:
    of = Session.objects.first() or session()
    more = {"code": code, "entity": "attempt", "entity_id": "x:0:1", "old": "", "new": "", "at": ago(5)}
    Anomaly.objects.create(session=of, **(more | fields))


def test_anomalies_by_code() -> None:
    odd()
    odd()
    odd("phantom_idle")
    odd("stale_session", at=ago(5000))
    assert found(Condition.ANOMALY) == {"dup_end": "2 anomalies: dup_end", "phantom_idle": "Anomaly: phantom_idle"}


def test_of_very_many_some_are_named_and_the_others_counted() -> None:
    for number in range(MOST + 7):
        odd(f"code{number:03d}")
    listed = facts(rule(Condition.ANOMALY), NOW)
    assert len(listed) == MOST + 1 and listed[-1].count == 7


# -- alerts ------------------------------------------------------------------------------------------------------------

Look = Callable[[float], None]


@pytest.fixture
def look(monkeypatch: pytest.MonkeyPatch) -> Look:
    """Look at all rules so many seconds from now."""

    def at(seconds: float) -> None:
        monkeypatch.setattr(evaluation, "database_now", lambda: NOW + timedelta(seconds=seconds))
        assert evaluate(0)

    return at


@pytest.fixture
def channel() -> Channel:
    return Channel.objects.create(name="ops", url="https://chat.example/hook")


def messages() -> list[tuple[str, str]]:
    rows = Notification.objects.order_by("created_at", "body__title").values_list("event", "body__title")
    return [(event, title) for event, title in rows]


def test_one_alert_however_often_it_is_found_and_one_message_at_each_end(look: Look, channel: Channel) -> None:
    session("alpha", state="lost", started_at=ago(500), ended_at=ago(400))
    for seconds in (0, 3, 6, 9):
        look(seconds)
    (alert,) = Alert.objects.all()
    assert alert.closed_at is None and alert.seen_at == NOW + timedelta(seconds=9)
    assert messages() == [("firing", "Prover alpha is lost")]
    session("alpha", started_at=ago(10))
    look(12)
    alert.refresh_from_db()
    assert alert.closed_at is None  # it may come and go
    look(9 + 30)
    alert.refresh_from_db()
    assert alert.closed_at is not None and alert.ending == "it is no longer so"
    assert [event for event, _ in messages()] == ["firing", "resolved"]


def test_what_comes_and_goes_is_one_alert(look: Look, channel: Channel) -> None:
    by = worker(session(tick_at=NOW + timedelta(seconds=999)), admin="quarantined")
    for seconds in range(0, 120, 10):
        Worker.objects.filter(pk=by.pk).update(admin="enabled" if seconds % 20 else "quarantined")
        look(seconds)
    assert Alert.objects.count() == 1 and len(messages()) == 1


def test_failures_that_go_on_are_counted_and_said_again_after_a_while(look: Look, channel: Channel) -> None:
    rule(Condition.FAILED_JOB, repeat_s=600)
    for seconds in range(0, 1500, 100):
        failed(ended_s=-seconds)
        look(seconds)
    (alert,) = Alert.objects.filter(condition="failed_job")
    assert alert.count >= 9 and [event for event, _ in messages()] == ["firing", "repeat", "repeat"]
    look(1400 + 899)
    assert Alert.objects.filter(condition="failed_job", closed_at=None).exists()
    look(1400 + 901)
    assert not Alert.objects.filter(condition="failed_job", closed_at=None).exists()


def test_a_storm_is_one_message(look: Look, channel: Channel) -> None:
    for number in range(8):
        odd(f"code{number}")
    look(0)
    assert Alert.objects.count() == 8 and messages() == [("firing", "8 alerts: Anomalies")]
    assert "Anomaly: code7" in Notification.objects.get().body["text"]


def test_a_rule_that_is_switched_off_closes_its_alerts_and_says_nothing(look: Look, channel: Channel) -> None:
    odd()
    look(0)
    rule(Condition.ANOMALY, enabled=False)
    look(3)
    assert Alert.objects.get().ending == "its rule was switched off" and len(messages()) == 1
    Rule.objects.filter(condition="anomaly").delete()
    assert Alert.objects.get().rule_name == "Anomalies"


def test_a_channel_gets_the_rules_that_it_names_or_all(look: Look, channel: Channel) -> None:
    only = Channel.objects.create(name="gpu", url="https://chat.example/gpu")
    only.rules.set([rule(Condition.QUARANTINED_WORKER)])
    Channel.objects.create(name="off", url="https://chat.example/off", enabled=False)
    quiet = Channel.objects.create(name="quiet", url="https://chat.example/quiet", recoveries=False)
    odd()
    look(0)
    look(2000)
    sent = Notification.objects.order_by("channel__name", "created_at").values_list("channel__name", "event")
    assert list(sent) == [("ops", "firing"), ("ops", "resolved"), (quiet.name, "firing")]


def test_a_rule_that_fails_closes_nothing_and_hinders_no_other(
    look: Look, channel: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd()
    look(0)
    real = evaluation.facts

    def broken(one: Rule, now: datetime) -> Any:
        if one.condition == "anomaly":
            connection.cursor().execute("SELECT 1 / 0")
        return real(one, now)

    monkeypatch.setattr(evaluation, "facts", broken)
    worker(session("beta", tick_at=NOW + timedelta(seconds=9999)), admin="quarantined")
    look(5000)
    assert Alert.objects.get(condition="anomaly").closed_at is None
    assert Alert.objects.filter(condition="quarantined_worker", closed_at=None).exists()
    assert Evaluation.objects.get().error == "Anomalies: DataError"


def test_old_alerts_go(look: Look) -> None:
    odd()
    look(0)
    look(2000)
    look(2000 + 91 * 24 * 3600)
    assert not Alert.objects.exists()


def test_who_looked_just_now_looks_for_all() -> None:
    assert evaluate()
    assert not evaluate()

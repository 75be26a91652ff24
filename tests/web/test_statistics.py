"""Sums by hour and day, failures by cause, workers over time, two of them side by side."""

from __future__ import annotations

from datetime import datetime, timedelta
from statistics import median
from typing import Any

import pytest

from cuzk_web.fleet.models import Job, Transition
from cuzk_web.history import rollups, worker_timeline
from cuzk_web.history.models import Rollup

from .conftest import Login
from .facts import START, attempt, job, session, worker

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

DAY = "since=2026-11-30&until=2026-12-01"


def ended(at: datetime, took_s: float, **fields: Any) -> Job:
    """A job that was submitted so long before its end, and waited for half of that."""
    since = at - timedelta(seconds=took_s)
    start = at - timedelta(seconds=took_s / 2)
    return job(**({"state": "done", "submitted_at": since, "started_at": start, "ended_at": at} | fields))


def test_sums_of_hours_and_days_are_those_of_the_jobs() -> None:
    for n in range(30):
        ended(START + timedelta(minutes=7 * n), 10 + n, kind="window-post" if n % 3 else "porep-c2", partitions=2)
    ended(START, 5, state="failed", error_code="wrong_challenge", started_at=None)
    ended(START, 5, state="cancelled", started_at=None)
    assert rollups.roll_up(every=True) == 4 + 1
    assert rollups.roll_up(every=True) == 0
    hour = Rollup.objects.get(span="hour", start=START, kind="")
    assert (hour.done, hour.failed, hour.cancelled, hour.partitions) == (9, 1, 1, 18)
    assert hour.took_ms[0] == median(1000 * (10 + n) for n in range(9))
    assert hour.wait_ms[0] == median(500 * (10 + n) for n in range(9))
    day = Rollup.objects.get(span="day", start=START.replace(hour=0), kind="porep-c2")
    assert (day.done, day.took_ms[0]) == (10, median(1000 * (10 + n) for n in range(0, 30, 3)))
    of_kinds = Rollup.objects.filter(span="hour").exclude(kind="").values_list("done", flat=True)
    assert sum(of_kinds) == 30


def test_a_job_that_is_told_late_is_summed_and_one_that_leaves_stays_summed() -> None:
    gone = ended(START, 10)
    rollups.roll_up(every=True)
    ended(START + timedelta(minutes=1), 20)
    assert rollups.roll_up(now=START + timedelta(days=1)) == 0  # looks at the last hours alone
    assert rollups.roll_up(now=START + timedelta(hours=1)) == 2
    assert Rollup.objects.get(span="hour", start=START, kind="").done == 2
    gone.delete()
    assert rollups.roll_up(every=True) == 0
    assert Rollup.objects.get(span="hour", start=START, kind="").done == 2


def test_throughput_has_a_line_an_hour_or_a_day(login: Login) -> None:
    vera = login("vera")
    assert "No job ended in this time" in vera.get(f"/statistics/?{DAY}").content.decode()
    ended(START, 10)
    ended(START + timedelta(hours=2), 3 * 3600, kind="porep-c2")
    rollups.roll_up(every=True)
    answer = vera.get(f"/statistics/?{DAY}")
    assert [(line.start.hour, line.done) for line in answer.context["lines"]] == [(10, 1), (8, 1)]
    assert "3h 00m" in answer.content.decode() and "10.0s" in answer.content.decode()
    answer = vera.get(f"/statistics/?by=day&kind=porep-c2&{DAY}")
    assert [(line.start.hour, line.done) for line in answer.context["lines"]] == [(0, 1)]
    assert vera.get("/statistics/").status_code == 200


def test_failures_are_grouped_by_cause_with_first_and_last(login: Login) -> None:
    held = worker(session())
    for minutes in (5, 1, 9):
        one = ended(START + timedelta(minutes=minutes), 1, state="failed", error_code="device_memory",
                    error_message=f"<b>{minutes}</b>")  # fmt: skip
        attempt(one, held, {"claimed": 0.0, "failed": 60.0 * minutes}, reason="device_memory")
    ended(START, 1, state="failed", error_code="wrong_challenge", kind="porep-c2")
    ended(START, 1)
    answer = login("vera").get(f"/statistics/failures/?{DAY}")
    first, second = answer.context["jobs"]
    assert (first.code, first.count, second.code, second.count) == ("device_memory", 3, "wrong_challenge", 1)
    assert (first.first, first.last) == (START + timedelta(minutes=1), START + timedelta(minutes=9))
    (tried,) = answer.context["attempts"]
    assert (tried.code, tried.count, tried.where) == ("device_memory", 3, ["alpha/0/0"])
    text = answer.content.decode()
    assert "&lt;b&gt;9&lt;/b&gt;" in text and f"/jobs/{first.job}/" in text
    before = login("vera").get("/statistics/failures/?since=2020-01-01&until=2021-01-01").content.decode()
    assert "No job failed" in before and "No attempt failed" in before


def test_workers_over_time(login: Login) -> None:
    alpha = session()
    first, second = worker(alpha), worker(alpha, sub=1)
    one = ended(START + timedelta(seconds=60), 60, partitions=2)
    steps = {"pending": 0.0, "claimed": 10.0, "device_wait": 11.0, "device": 12.0, "finalizing": 18.0, "done": 30.0}
    attempt(one, first, steps, partition=0)
    attempt(one, second, {name: at + 6 for name, at in steps.items()}, partition=1)
    query = "since=2026-11-30T08:00:00&until=2026-11-30T08:00:20"
    answer = login("vera").get(f"/statistics/workers/?{query}")
    uses = answer.context["workers"]
    assert [use.spent["device"] for use in uses] == [6000, 2000]  # cut at the period's end
    assert [use.spent["finalize"] for use in uses] == [2000, 0]
    assert [round(use.idle, 3) for use in uses] == [0.6, 0.8]
    (device,) = answer.context["devices"]
    assert device.spent["device"] == 8000 and round(device.idle, 3) == 0.6
    assert len(answer.context["views"]["views"]["attempt"]) == 2
    # the first was paused from 2 s on, before its attempt and beyond it; the second was lost before, and came at 9 s
    said = [
        ("admin", first.id, 2.0, "paused"),
        ("worker", second.id, -9.0, "lost"),
        ("worker", second.id, 9.0, "online"),
    ]
    Transition.objects.bulk_create(
        Transition(session=alpha, seq=seq, at=START + timedelta(seconds=at), mono_ns=0, entity=entity, entity_id=key,
                   old="", new=new, worker=key)
        for seq, (entity, key, at, new) in enumerate(said, 1)
    )  # fmt: skip
    uses = login("vera").get(f"/statistics/workers/?{query}").context["workers"]
    assert [use.spent["paused"] for use in uses] == [10_000, 0]  # 2 to 10, and 18 to 20
    assert [use.spent["away"] for use in uses] == [0, 9000]
    assert [use.idle_ms for use in uses] == [2000, 7000]
    assert login("vera").get("/statistics/workers/?prover=nobody").status_code == 200


def test_two_jobs_and_two_periods_side_by_side(login: Login, monkeypatch: Any) -> None:
    vera = login("vera")
    ended(START, 10, number=1)
    ended(START + timedelta(hours=1), 20, number=2, kind="porep-c2")
    lines = {line.name: line for line in vera.get("/statistics/compare/?a=1&b=2").context["lines"]}
    assert (lines["total"].a, lines["total"].b, lines["total"].change) == ("10.0s", "20.0s", "+100%")
    assert (lines["kind"].a, lines["kind"].b) == ("WindowPoSt", "PoRep C2")
    hours = ("2026-11-30T08:00", "2026-11-30T09:00", "2026-11-30T10:00")
    query = f"a_since={hours[0]}&a_until={hours[1]}&b_since={hours[1]}&b_until={hours[2]}"
    lines = {line.name: line for line in vera.get(f"/statistics/compare/?{query}").context["lines"]}
    assert (lines["done"].a, lines["total, p50"].b, lines["jobs done an hour"].a) == ("1", "20.0s", "1.0")
    assert vera.get(f"/statistics/compare/?{query}&kind=snap-update").status_code == 200  # there are none
    assert vera.get("/statistics/compare/").status_code == 200
    assert vera.get("/statistics/compare/?a=1&b=99").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "?by=year", "?kind=porep", "?since=x", "?page=1", "?since=2027-01-01&until=2026-01-01", "failures/?until=x",
        "failures/?code=1", "workers/?since=2026-01-01&until=2026-02-01", "workers/?prover=%00", "workers/?w=1",
        "compare/?a=x&b=1", "compare/?a=1", "compare/?a_since=2026-01-01", "compare/?c=1", "compare/?a=-1&b=1",
        "compare/?a_since=2026-01-02&a_until=2026-01-01&b_since=2026-01-01&b_until=2026-01-02",
    ],
)  # fmt: skip
def test_a_bad_parameter_is_a_clear_400(login: Login, path: str) -> None:
    assert login("vera").get(f"/statistics/{path}").status_code == 400


def test_too_many_attempts_are_not_drawn(login: Login, monkeypatch: Any) -> None:
    monkeypatch.setattr(worker_timeline, "ATTEMPTS", 1)
    held, one = worker(session()), ended(START, 1)
    for n in range(2):
        attempt(one, held, {"claimed": 0.0, "done": 1.0}, partition=n)
    assert login("vera").get("/statistics/workers/?since=2026-11-30T08:00&until=2026-11-30T09:00").status_code == 400


@pytest.mark.parametrize("path", ["", "failures/", "workers/", "compare/"])
def test_who_may(login: Login, path: str) -> None:
    assert login("").get(f"/statistics/{path}").status_code == 302
    assert login("sam").get(f"/statistics/{path}").status_code == 403
    assert login("vera").post(f"/statistics/{path}").status_code == 405

"""CSV, JSON and Chrome traces of the history."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections import defaultdict
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient

from cuzk_web.history import chrome_trace, exports

from .conftest import Login
from .facts import START, attempt, done_job, job, session, us, worker

pytestmark = pytest.mark.postgres

WHOLE = {"pending": 0.0, "reserved": 0.1, "synthesizing": 0.2, "ready": 0.7, "claimed": 0.9, "device_wait": 1.0}


def download(people: dict[str, User], url: str) -> tuple[Any, str]:
    """The answer to vera, and its body."""
    browser = AsyncClient()
    browser.force_login(people["vera"])

    async def get() -> tuple[Any, str]:
        answer = await browser.get(url)
        if not answer.streaming:
            return answer, answer.content.decode()
        return answer, b"".join([piece async for piece in answer.streaming_content]).decode()

    return async_to_sync(get)()


@pytest.mark.parametrize("what", ["export.csv", "export.json", "trace.json"])
def test_who_may(login: Login, what: str) -> None:
    assert login("").get(f"/jobs/{what}").status_code == 302
    assert login("sam").get(f"/jobs/{what}").status_code == 403
    assert login("vera").post(f"/jobs/{what}").status_code == 405


@pytest.mark.parametrize("what", ["export.csv", "export.json", "trace.json"])
@pytest.mark.parametrize(
    "query", ["kind=porep", "since=yesterday", "colour=red", "worker=%00", "since=2027&until=2026"]
)
def test_a_bad_parameter_is_a_clear_400(login: Login, what: str, query: str) -> None:
    answer = login("vera").get(f"/jobs/{what}?{query}")
    assert answer.status_code == 400 and query.split("=")[0] in answer.content.decode()


def test_csv_and_json_have_all_jobs_of_the_filter_once(people: dict[str, User], monkeypatch: Any) -> None:
    monkeypatch.setattr(exports, "PIECE", 10)
    for n in range(1, 36):
        job(number=n, kind="winning-post" if n % 2 else "window-post")
    answer, text = download(people, "/jobs/export.csv?kind=winning-post&before=9")
    assert answer["Content-Type"] == "text/csv; charset=utf-8" and "attachment" in answer["Content-Disposition"]
    lines = list(csv.DictReader(io.StringIO(text)))
    assert [int(line["number"]) for line in lines] == list(range(35, 0, -2))
    _, text = download(people, "/jobs/export.json?kind=winning-post")
    assert [one["number"] for one in json.loads(text)["jobs"]] == list(range(35, 0, -2))
    assert json.loads(download(people, "/jobs/export.json?kind=porep-c2")[1]) == {"jobs": []}
    monkeypatch.setattr(exports, "PIECE", 7)  # the last piece is full
    assert len(json.loads(download(people, "/jobs/export.json")[1])["jobs"]) == 35


def test_no_cell_is_a_formula(people: dict[str, User]) -> None:
    hostile = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "=cmd|' /C calc'!A0", "＝1", 'a"b,c\nd', "<script>"]
    for n, text in enumerate(hostile, 1):
        job(number=n, request_id=text, error_message=text, submitted_by=text)
    _, text = download(people, "/jobs/export.csv")
    for line in csv.DictReader(io.StringIO(text, newline="")):
        for name in ("request_id", "error_message", "submitted_by"):
            assert not line[name].startswith(exports.FORMULA)
            assert line[name].removeprefix("'") == hostile[int(line["number"]) - 1]
    _, text = download(people, "/jobs/export.json")
    assert {one["request_id"] for one in json.loads(text)["jobs"]} == set(hostile)  # as they are


def test_numbers_and_times_of_a_job(people: dict[str, User]) -> None:
    done_job(number=7, sector_number=3)
    (one,) = json.loads(download(people, "/jobs/export.json")[1])["jobs"]
    assert (one["queue_ms"], one["total_ms"], one["miner"], one["sector"]) == (2000, 10000, "f01000", 3)
    assert one["submitted_at"] == "2026-11-30T08:00:00.000000Z" and one["error_code"] is None


def slices(text: str) -> dict[tuple[int, int], list[dict[str, Any]]]:
    """The trace's slices by thread, after a check of what the format asks for."""
    trace = json.loads(text)
    threads = defaultdict(list)
    for event in trace["traceEvents"]:
        assert event["ph"] in ("X", "M") and isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["ph"] == "M":
            assert event["name"] in ("process_name", "thread_name") and event["args"]["name"]
        else:
            assert isinstance(event["ts"], int) and event["ts"] >= 0 and event["dur"] >= 0 and event["name"]
            threads[event["pid"], event["tid"]].append(event)
    return threads


def test_a_trace_has_partitions_and_workers_and_nothing_overlaps_in_a_thread(people: dict[str, User]) -> None:
    one = done_job(partitions=3, partition_index=4, request_id="ps-snap-1000-7")
    first = worker(session())
    for n, shift in enumerate((0.0, 0.6, 1.2)):  # each goes to the device as the one before it is handed off
        steps = {state: at + shift for state, at in WHOLE.items()}
        attempt(
            one, first, steps | {"device": 1.1 + shift, "finalizing": 1.5 + shift, "done": 3.0 + shift}, partition=n
        )
    answer, text = download(people, f"/jobs/{one.id}/trace.json")
    assert answer["Content-Type"] == "application/json"
    threads = slices(text)
    for events in threads.values():
        events.sort(key=lambda event: event["ts"])
        for before, after in itertools.pairwise(events):
            assert before["ts"] + before["dur"] <= after["ts"], (before, after)
    names = {
        event["args"]["name"] for event in json.loads(text)["traceEvents"] if event["name"].endswith("_name")
    }  # fmt: skip
    assert {"P4", "P5", "P6", "prover alpha", "W0 · GPU 0", "W0 · GPU 0 · CPU tail"} <= names
    devices = [event for events in threads.values() for event in events if event["cat"] == "device"]
    assert len(devices) == 6 and {event["dur"] for event in devices} == {400_000}
    assert json.loads(text)["otherData"]["start_us"] == us(START)


def test_a_trace_of_a_period_has_what_was_open_then(people: dict[str, User], login: Login, monkeypatch: Any) -> None:
    ended, still = done_job(number=1), job(number=2, state="running")
    attempt(still, session(), {"pending": 1.0, "synthesizing": 2.0})
    for query, count in (
        ("since=2026-11-30T08:00:05", 2),
        ("since=2026-11-30T08:00:11", 1),
        ("until=2026-11-30T07:00", 0),
    ):
        _, text = download(people, f"/jobs/trace.json?{query}")
        assert sum(event["cat"] == "job" for events in slices(text).values() for event in events) == count, query
    assert ended.ended_at is not None
    monkeypatch.setattr(chrome_trace, "JOBS", 1)
    answer = login("vera").get("/jobs/trace.json")
    assert answer.status_code == 400 and "more than 1 jobs" in answer.content.decode()
    monkeypatch.setattr(chrome_trace, "JOBS", 10)
    monkeypatch.setattr(chrome_trace, "ATTEMPTS", 0)
    assert login("vera").get("/jobs/trace.json").status_code == 400

"""GET /jobs/<uuid>/: one job with its attempts, where the time went, and its events."""

from __future__ import annotations

import json
import re
import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from cuzk_web.fleet.models import Job

from .conftest import Login
from .facts import START, attempt, done_job, events, job, session, worker

pytestmark = pytest.mark.postgres

SPLIT = {
    "pending": 0, "reserved": 0.1, "synthesizing": 0.2, "ready": 1.2, "claimed": 1.3, "device_wait": 1.31,
    "device": 1.4, "finalizing": 3.4, "done": 3.9,
}  # fmt: skip


def url(of: Job) -> str:
    return f"/jobs/{of.id}/"


@pytest.mark.parametrize(("name", "status"), [("", 302), ("sam", 403), ("vera", 200), ("olga", 200), ("ada", 200)])
def test_who_may_see_it(login: Login, name: str, status: int) -> None:
    assert login(name).get(url(job())).status_code == status


def test_unknown_and_malformed_ids_are_404(login: Login) -> None:
    assert login("vera").get(f"/jobs/{uuid.uuid4()}/").status_code == 404
    assert login("vera").get("/jobs/12/").status_code == 404
    assert "Not found" in login("vera").get("/jobs/not-a-job/").content.decode()


def test_header_tells_what_matters(login: Login) -> None:
    first = job(state="failed", ended_at=START)
    done = done_job(request_id="winpost-1000-abcdef01", kind="winning-post", retry_of=first, sector_number=7)
    text = login("vera").get(url(done)).content.decode()
    for wanted in (
        "WinningPoSt", "winpost-1000-abcdef01", str(done.id), "high", "olga", "2.0s", "10.0s", "f01000", "2 KiB",
        "Local keys: not for the chain", "1 of 1 proved", f"/jobs/{first.id}/", "192 B",
    ):  # fmt: skip
        assert wanted in text, wanted
    assert f"/jobs/{done.id}/" in login("vera").get(url(first)).content.decode()


def test_the_error_is_shown_with_its_code(login: Login) -> None:
    failed = job(
        state="failed", ended_at=START, error_code="wrong_challenge", error_message="<b>vanilla_proofs[0]</b>: no"
    )
    text = login("vera").get(url(failed)).content.decode()
    assert "<code>wrong_challenge</code>" in text
    assert "&lt;b&gt;vanilla_proofs[0]&lt;/b&gt;: no" in text


def test_what_waits_for_memory_says_for_how_much_and_behind_whom(login: Login) -> None:
    said = "memory budget short by 2.1 GiB; behind job 7"
    waits = job(state="running", detail={"waits": said})
    assert said in login("vera").get(f"/jobs/{waits.pk}/").content.decode()
    for other in (job(state="running", detail={"waits": None}), job(detail={"waits": said}, ended_at=START)):
        assert "Waits for memory" not in login("vera").get(f"/jobs/{other.pk}/").content.decode()


def test_partitions_are_named_by_their_index_on_the_chain(login: Login) -> None:
    one = job(partitions=2, partition_index=7)
    attempt(one, worker(session()), SPLIT, 1)
    assert "<strong>P8</strong>" in login("vera").get(url(one)).content.decode()


def test_phases_of_each_attempt(login: Login) -> None:
    one = job(partitions=2)
    by = worker(session())
    attempt(one, by, SPLIT)
    attempt(one, by, {"pending": 0, "reserved": 0.5, "synthesizing": 0.6, "failed": 2}, 1, reason="wrong_challenge")
    attempt(one, by, {"pending": 2, "reserved": 2.1, "synthesizing": 2.5}, 1, 2)
    rows = login("vera").get(url(one)).context["rows"]
    phases = [{p.name: p.ms for p in row.cells if p} for row in rows]
    assert phases[0] == {
        "queue": 100, "memory": 100, "synth": 1000, "ready": 100, "prep": 10, "wait": 90, "device": 2000,
        "finalize": 500,
    }  # fmt: skip
    assert phases[1]["synth"] == 1400 and phases[2]["synth"] is None  # it lasts
    assert [row.total_ms for row in rows] == [3900, 2000, None]
    assert [(row.attempt.partition, row.attempt.attempt_no) for row in rows] == [(0, 1), (1, 1), (1, 2)]


def test_partitions_have_their_numbers_on_the_chain(login: Login) -> None:
    one = job(partitions=2, partition_index=7)
    attempt(one, worker(session()), SPLIT, 1)
    text = login("vera").get(url(one)).content.decode()
    assert "<strong>P8</strong>" in text and "<strong>P1</strong>" not in text


def test_sums_stand_beside_the_wall_time(login: Login) -> None:
    one = done_job(partitions=2)
    by = worker(session())
    attempt(one, by, SPLIT), attempt(one, by, SPLIT, 1)
    context = login("vera").get(url(one)).context
    sums = {line.name: (line.total_ms, line.share) for line in context["timings"]}
    assert context["wall_ms"] == 10_000
    assert sums["device"] == (4000, 0.4) and sums["synth"] == (2000, 0.2)


def test_the_waterfalls_data_is_the_shape_of_a_snapshot(login: Login) -> None:
    one = done_job(request_id="</script><script>alert(1)</script>")
    made = attempt(one, worker(session()), SPLIT)
    text = login("vera").get(url(one)).content.decode()
    data = json.loads(re.search(r'<script id="job-views" type="application/json">(.*?)</script>', text, re.S).group(1))
    view = data["views"]["attempt"][made.id]
    assert view["state"] == "done" and view["worker"] == "alpha/0/0" and view["times"] == made.times
    assert data["views"]["job"][str(one.id)]["detail"]["request_id"] == one.request_id
    assert "<script>alert" not in text


@pytest.mark.parametrize("step_ms", [0, 1])
def test_events_come_in_pages_that_miss_nothing(login: Login, step_ms: int) -> None:
    one, by = job(), session()
    events(one, by, 230, step_ms=step_ms)
    events(job(), session("other"), 20)
    browser, link, seen = login("vera"), "", []
    while link is not None:
        page = browser.get(url(one) + link).context["events"]
        seen += [event.seq for event in page.events]
        link = f"?events={page.next}" if page.next else None
        events(one, session(), 1, at=START + timedelta(hours=1))  # the log grows at its end
    assert seen[:230] == list(range(1, 231)) and len(seen) <= 236


@pytest.mark.parametrize(
    "cursor", ["x", "1_2_3", "-1_00000000-0000-0000-0000-000000000000_1", "9" * 30 + "_a_1", "%00"]
)
def test_a_bad_cursor_is_a_clear_400(login: Login, cursor: str) -> None:
    answer = login("vera").get(f"{url(job())}?events={cursor}")
    assert answer.status_code == 400
    assert "no place in the list of events" in answer.content.decode()


def test_statements_do_not_grow_with_attempts(login: Login) -> None:
    one, by, browser = job(partitions=40), worker(session()), login("vera")

    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert browser.get(url(one)).status_code == 200
        return len(captured)

    attempt(one, by, SPLIT)
    few = count()
    for partition in range(1, 40):
        attempt(one, by, SPLIT, partition)
    assert count() == few <= 13


@pytest.mark.parametrize("label", ["<script>alert(1)</script>", "x" * 10_000, "\u202eevil", "🧨" * 300])
def test_hostile_labels_stay_text(login: Login, label: str) -> None:
    one = job(request_id=label, submitted_by=label, error_message=label, error_code="<u>", kind="<b>k</b>")
    attempt(one, session(), {"pending": 0, "failed": 1}, reason="<s>r</s>", detail={"error": label})
    text = login("vera").get(url(one)).content.decode()
    for tag in ("<script>alert", "<u>", "<b>k", "<s>r"):
        assert tag not in text

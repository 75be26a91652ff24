"""The audit finds what was damaged from outside, in tables, log, fold or a gauge; and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from cuzk_web.live import auditor
from cuzk_web.live.audit import Difference, Finding, counts, state_at
from cuzk_web.live.hub import Hub
from cuzk_web.live.rows import SITE
from prover.states import Entity, View

from .story import Story
from .waiting import until
from .writer import Writer

pytestmark = pytest.mark.postgres

Owner = psycopg.Connection[Any]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    monkeypatch.setattr(auditor, "SETTLE_S", 0.02)
    settings.AUDIT_S = 3600


@pytest.fixture
async def at_work(live: Hub, story: Story, writer: Writer) -> Hub:
    """A hub whose prover is in the middle of two jobs."""
    for kind, partitions in (("window-post", 6), ("porep-c2", 3)):
        story.submit(kind, f"{kind}-1", partitions)
    story.run(3)
    writer.write(story.take())
    await in_step(live, story)
    return live


async def in_step(hub: Hub, story: Story) -> None:
    await until(lambda: hub.state.heads == story.state.heads)


def codes(found: list[Difference]) -> set[tuple[str, str]]:
    return {(one.code.value, one.entity) for one in found}


def some_attempt(hub: Hub, state: str = "done") -> str:
    return next(key for key, view in hub.state.views[Entity.ATTEMPT].items() if view.state == state)


async def test_nothing_is_found_while_a_prover_works(at_work: Hub, story: Story, writer: Writer) -> None:
    rounds = at_work.auditor.rounds

    async def work() -> None:
        for number in range(40):
            story.submit("window-post", f"more-{number}", 2)
            story.run(1.5)
            await asyncio.to_thread(writer.write, story.take())
            sampled(writer, story, {})
            await asyncio.sleep(0.02)

    working = asyncio.create_task(work())
    while not working.done():
        assert await at_work.auditor.round() == []
    await working
    assert await at_work.auditor.round() == []
    assert at_work.auditor.rounds > rounds + 2
    assert at_work.auditor.report()["findings"] == []


def sampled(writer: Writer, story: Story, wrong: dict[str, int]) -> None:
    """The prover counts, now in the story."""
    writer.beat(story.session, story.state.gauges() | wrong)
    writer.connection.execute(
        "UPDATE sample SET at = to_timestamp(%s / 1e6) WHERE id = (SELECT max(id) FROM sample)", [story.now_us]
    )


async def test_a_row_that_was_changed_behind_the_provers_back(at_work: Hub, owner: Owner) -> None:
    key = some_attempt(at_work)
    owner.execute("UPDATE attempt SET state = 'failed' WHERE id = %s", [key])
    first = await at_work.auditor.round()
    assert ("audit_page", "attempt") in codes(first) and {one.entity_id for one in first} == {key}
    await until(
        lambda: at_work.state.get(Entity.ATTEMPT, key).state == "failed"
    )  # what the database says, right or not
    second = await at_work.auditor.round()
    assert ("audit_log", "attempt") in codes(second) and ("audit_page", "attempt") not in codes(second)
    rows = owner.execute("SELECT code, entity_id, detail ->> 'text' FROM anomaly ORDER BY id").fetchall()
    assert {(code, what) for code, what, _ in rows} == {("audit_page", key), ("audit_log", key)}
    assert any("the event log attempt" in text for _, _, text in rows)
    await at_work.auditor.round()
    assert owner.execute("SELECT count(*) FROM anomaly").fetchone() == (len(rows),)  # once, not in each round
    report = at_work.auditor.report()["findings"]
    assert {one["code"] for one in report} == {"audit_page", "audit_log"}


async def test_a_fold_that_was_changed_is_found_and_read_anew(at_work: Hub, story: Story) -> None:
    worker, view = next(iter(at_work.state.views[Entity.WORKER].items()))
    at_work.state.views[Entity.WORKER][worker] = replace(view, state="lost", times={**view.times, "lost": story.now_us})
    found = await at_work.auditor.round()
    assert ("audit_page", "worker") in codes(found) and found[0].text.startswith(f"worker {worker}: the page has lost")
    await until(lambda: at_work.state.get(Entity.WORKER, worker) == view)
    assert await at_work.auditor.round() == []
    assert at_work.auditor.report()["findings"]  # still told: somebody may have looked at it


async def test_a_thing_that_the_fold_lost_and_a_count_that_is_wrong(at_work: Hub) -> None:
    job = next(iter(at_work.state.views[Entity.JOB]))
    del at_work.state.views[Entity.JOB][job]
    at_work.state.ended["window-post done"] = 77
    found = await at_work.auditor.round()
    assert {("audit_page", "job"), ("audit_page", "counter")} <= codes(found)


async def test_a_log_that_was_changed(at_work: Hub, owner: Owner) -> None:
    key = some_attempt(at_work)
    view = at_work.state.get(Entity.ATTEMPT, key)
    place = [view.session, view.seq]
    owner.execute("UPDATE transition SET new = 'skipped' WHERE session_id = %s AND seq = %s", place)
    assert ("audit_log", "attempt") in codes(await at_work.auditor.round())


async def test_a_gauge_that_drifted_is_found_when_it_stays_so(at_work: Hub, story: Story, writer: Writer) -> None:
    found: list[Difference] = []
    for _ in range(3):
        assert found == []
        writer.connection.execute("DELETE FROM sample")
        sampled(writer, story, {"finalizing": 9})
        await until(lambda: bool(at_work.live.get(story.session, {}).get("gauges")))
        found = await at_work.auditor.round()
    assert codes(found) == {("audit_gauges", "session")} and found[0].theirs == "9"
    writer.connection.execute("DELETE FROM sample")
    sampled(writer, story, {})
    await until(lambda: at_work.live[story.session]["gauges"]["finalizing"] != 9)
    assert await at_work.auditor.round() == []


async def test_pages_are_told(at_work: Hub) -> None:
    await until(lambda: SITE in at_work.live)
    assert at_work.live[SITE]["alerts"] == {"title": ""} and at_work.live[SITE]["audit"]["findings"] == []
    at_work.state.ended["window-post done"] = 77
    await at_work.auditor.round()
    await until(lambda: bool(at_work.live[SITE]["audit"]["findings"]))


async def test_a_database_that_is_away_is_not_a_finding(at_work: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away() -> None:
        raise psycopg.OperationalError("away")

    monkeypatch.setattr(auditor.snapshot, "read", away)
    with pytest.raises(psycopg.OperationalError):
        await at_work.auditor.round()
    assert at_work.auditor.report()["findings"] == []


def test_only_a_finding_of_the_audit_can_be_recorded(owner: Owner) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        owner.execute("SELECT record_finding('dup_end', 'job', 'x', '', '', '')")


def test_what_a_thing_was_at_a_moment() -> None:
    view = View("done", {"pending": 1, "reserved": 5, "synthesizing": 5, "done": 9})
    assert [state_at(view, us) for us in (0, 1, 4, 5, 8, 9, 10)] == [
        None, "pending", "pending", "synthesizing", "synthesizing", "done", "done",
    ]  # fmt: skip


def test_counts_of_now_are_those_of_the_fold(story: Story) -> None:
    story.submit("window-post", "a", 8)
    for _ in range(30):
        story.run(0.3)
        now = story.state.gauges()
        counted = counts(story.state, story.session, story.now_us)
        assert counted == {name: now[name] for name in counted}
    assert Finding.PAGE == "audit_page"

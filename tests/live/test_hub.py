"""The hub on a real Postgres: it starts from the tables, follows the log, and serves each viewer from its cursor."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from cuzk_web.live import hub as hub_module
from cuzk_web.live import ring, snapshot, source, viewer
from cuzk_web.live.hub import Hub
from cuzk_web.live.protocol import BadFrame, CloseCode
from cuzk_web.live.viewer import Viewer
from prover.states import Entity, FleetState, Transition, fold, from_json
from tests.postgres import Database

from .story import SITE, Story
from .waiting import until
from .writer import Writer

pytestmark = pytest.mark.postgres


class Page:
    """What a browser does, without one: keeps a fold, acknowledges, takes a new snapshot on reset."""

    def __init__(self, hub: Hub, reads: bool = True) -> None:
        self.hub, self.reads = hub, reads
        self.frames: list[dict[str, Any]] = []
        self.closed: int | None = None
        self.viewer = Viewer(self._receive, self._close)
        hub.enter(self.viewer)
        self.state = from_json(json.loads(hub.snapshot_json())["state"])

    async def _receive(self, text: str) -> None:
        frame = json.loads(text)
        self.frames.append(frame)
        for row in frame.get("rows", []):
            if row[1] > self.state.heads.get(row[0], 0):
                fold([Transition.from_row(row)], self.state)

    async def _close(self, code: int) -> None:
        self.closed = code

    async def subscribe(self) -> None:
        await self.hub.since(self.viewer, self.state.heads)

    async def ack(self) -> None:
        await self.hub.ack(self.viewer, self.frames[-1]["n"])

    @property
    def rows(self) -> list[list[Any]]:
        return [row for frame in self.frames for row in frame.get("rows", [])]


def words(state: FleetState) -> dict[str, Any]:
    """The views of a state, as they travel. (The tables name a worker's and a job's own id in its view.)"""
    views = state.to_json()["views"]
    for view in views["worker"].values():
        view["worker"] = None
    return views


async def test_a_snapshot_is_the_fold_of_the_log(live: Hub, writer: Writer, story: Story) -> None:
    story.fail = lambda request, partition, attempt: partition in (2, 5) and attempt == 1
    story.submit("window-post", "deadline-7", partitions=13, priority=3)
    story.submit("winning-post", "epoch-99")
    story.run(9)
    writer.write(story.take())
    await live.ready.wait()
    read = await snapshot.read()
    assert words(read.state) == words(story.state)
    assert read.state.heads == read.heads == story.state.heads
    assert {k: v for k, v in read.state.held.items() if v} == {k: v for k, v in story.state.held.items() if v}
    assert read.state.latest == story.state.latest
    job = next(view for view in read.state.views[Entity.JOB].values() if view.detail["kind"] == "window-post")
    assert job.detail["request_id"] == "deadline-7" and job.detail["partitions"] == 13


async def test_a_viewer_sees_every_row_once_and_in_order(live: Hub, writer: Writer, story: Story) -> None:
    writer.write(story.take())
    await live.ready.wait()
    page = Page(live)
    await page.subscribe()
    for _ in range(10):
        story.submit("winning-post", f"epoch-{_}")
        story.run(0.7)
        writer.write(story.take())
        await asyncio.sleep(0.02)
    await until(lambda: page.state.heads == story.state.heads)
    for session in story.state.heads:
        seqs = [row[1] for row in page.rows if row[0] == session]
        assert seqs == sorted(set(seqs))
    assert words(page.state) == words(story.state)
    assert [frame["n"] for frame in page.frames] == list(range(1, len(page.frames) + 1))


def test_a_process_that_takes_long_for_a_frame_makes_fewer() -> None:
    least, most = hub_module.PAUSE_S
    pauses = [hub_module.pause(took) for took in (0.0, 0.03, 0.06, 10.0)]
    assert pauses[0] == least and pauses[-1] == most
    assert pauses == sorted(set(pauses))


async def test_one_text_serves_all_viewers_in_step(live: Hub, writer: Writer, story: Story) -> None:
    await live.ready.wait()
    pages = [Page(live) for _ in range(5)]
    for page in pages:
        await page.subscribe()
    writer.write(story.take())
    await until(lambda: all(page.state.heads == story.state.heads for page in pages))
    texts = {json.dumps([frame["rows"] for frame in page.frames if "rows" in frame]) for page in pages}
    assert len(texts) == 1


async def test_a_killed_listener_costs_no_row(site: Database, live: Hub, writer: Writer, story: Story) -> None:
    await live.ready.wait()
    page = Page(live)
    await page.subscribe()
    await asyncio.sleep(0.3)  # the listener, too, is connected
    with site.server.connect() as connection:
        query = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'cuzk hub'"
        assert connection.execute(query).fetchone() >= (2,)
    writer.write(story.take())
    await until(lambda: page.state.heads == story.state.heads, hub_module.POLL_S + 2)
    story.submit("winning-post", "after")
    writer.write(story.take())
    await until(lambda: page.state.heads == story.state.heads, 2)


async def test_a_lost_notification_costs_at_most_a_poll(
    live: Hub, writer: Writer, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub_module, "POLL_S", 0.3)
    await live.ready.wait()
    page = Page(live)
    await page.subscribe()
    writer.connection.execute("SELECT 1")
    monkeypatch.setattr(live, "_news", asyncio.Event())  # the listener now tells nobody
    writer.write(story.take())
    await until(lambda: page.state.heads == story.state.heads)


async def test_a_viewer_who_does_not_read_is_not_buffered_for_but_served_later(
    live: Hub, writer: Writer, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer, "WINDOW", 4)
    monkeypatch.setattr(hub_module, "CHUNK", 7)
    await live.ready.wait()
    page = Page(live)
    await page.subscribe()
    for number in range(8):
        story.submit("window-post", f"job-{number}")
        story.run(1)
        writer.write(story.take())
        await until(lambda: live.state.heads == story.state.heads)
    assert page.viewer.sent == 4
    assert page.state.heads != story.state.heads
    while page.state.heads != story.state.heads:
        before = len(page.frames)
        await page.ack()
        assert len(page.frames) - before <= 4
    await until(lambda: words(page.state) == words(story.state))


async def test_rows_that_left_the_ring_come_from_the_table(
    live: Hub, writer: Writer, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.ring = ring.Ring(capacity=10)
    await live.ready.wait()
    page = Page(live)
    for number in range(6):
        story.submit("window-post", f"job-{number}")
        story.run(2)
        writer.write(story.take())
    await until(lambda: live.state.heads == story.state.heads)
    assert not live.ring.covers(story.session, 0)
    await page.subscribe()
    assert page.state.heads == story.state.heads
    assert words(page.state) == words(story.state)


async def test_a_cursor_too_far_back_is_told_to_reset(
    live: Hub, writer: Writer, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    await live.ready.wait()
    page = Page(live)
    story.submit("window-post", "deadline", partitions=13)
    story.run(30)
    writer.write(story.take())
    await until(lambda: live.state.heads == story.state.heads)
    monkeypatch.setattr(hub_module, "CAPACITY", 50)
    await page.subscribe()
    assert page.frames[-1].get("reset") is True
    story.submit("window-post", "another")
    writer.write(story.take())
    await until(lambda: live.state.heads == story.state.heads)
    assert page.frames[-1].get("reset") is True, "nothing is sent until the page says what it has"


async def test_a_cursor_of_another_database_is_told_to_reset(live: Hub, writer: Writer, story: Story) -> None:
    story.submit("window-post", "one")
    writer.write(story.take())
    await live.ready.wait()
    page = Page(live)
    await live.since(page.viewer, {SITE: 5000})
    assert page.frames[-1].get("reset") is True


async def test_a_missing_row_makes_the_hub_start_again(
    live: Hub, writer: Writer, story: Story, owner: psycopg.Connection[Any]
) -> None:
    await live.ready.wait()
    page = Page(live)
    await page.subscribe()
    owner.execute(
        "INSERT INTO session (id, prover, state_at, times, detail, host, version, machine, head_seq, moved_seq, state,"
        " started_at) VALUES (%s, 'p', now(), '{}', '{}', '', '', '', 7, 0, 'starting', now())",
        [story.session],
    )
    owner.execute("NOTIFY cuzk")
    await until(lambda: any(frame.get("reset") for frame in page.frames))
    assert live.heads[story.session] == 7


def many_sessions(owner: psycopg.Connection[Any], count: int) -> None:
    """Sessions that ended one an hour, the last a day ago."""
    owner.execute(
        "INSERT INTO session (id, prover, state_at, times, detail, host, version, machine, head_seq, moved_seq, state,"
        " started_at, ended_at) SELECT gen_random_uuid(), 'p', now(), '{}', '{}', '', '', '', 0, 0, 'stopped',"
        " now() - n * interval '1 hour', now() - n * interval '1 hour' FROM generate_series(24, 23 + %s) n",
        [count],
    )
    owner.execute("ANALYZE session")


async def test_sessions_that_ended_long_ago_are_not_read_again(
    site: Database, writer: Writer, story: Story, owner: psycopg.Connection[Any]
) -> None:
    many_sessions(owner, 10_000)
    writer.write(story.take())
    reader = source.Reader()
    first, second = await reader.heads(), await reader.heads()
    await reader.close()
    assert (first.all, second.all) == (True, False)
    assert len(first.seqs) == 10_000 + len(second.seqs)
    assert second.seqs.keys() == {story.session} == second.open
    parameters = (second.now_us / 1e6 - source.MARGIN_S, list(second.open))
    plan = "\n".join(line for (line,) in owner.execute(f"EXPLAIN {source._HEADS}", parameters))
    assert "Seq Scan" not in plan and "session_ended" in plan, plan


async def test_a_session_that_ends_is_read_to_its_end(
    live: Hub, writer: Writer, story: Story, owner: psycopg.Connection[Any]
) -> None:
    """Its last rows and its end may come in one batch, stamped long ago: from the spool of a prover that has died."""
    many_sessions(owner, 100)
    writer.write(story.take())
    await until(lambda: live.state.heads == story.state.heads)
    story.submit("winning-post", "late")
    story.run(2)
    with owner.transaction():
        writer.write(story.take())
        owner.execute("UPDATE session SET ended_at = now() - interval '1 day' WHERE id = %s", [story.session])
    await until(lambda: live.state.heads == story.state.heads, 2)
    assert live.ready.is_set()


async def test_a_session_that_began_and_ended_unseen_is_read(
    live: Hub, writer: Writer, story: Story, owner: psycopg.Connection[Any]
) -> None:
    await live.ready.wait()
    await until(lambda: live._log_reader._heads is not None)
    with owner.transaction():
        writer.write(story.take())
        owner.execute("UPDATE session SET ended_at = now() WHERE id = %s", [story.session])
    await until(lambda: live.state.heads == story.state.heads, 2)


async def test_whatever_was_missed_is_found(
    live: Hub, writer: Writer, story: Story, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    await live.ready.wait()
    await until(lambda: live._log_reader._heads is not None)
    with owner.transaction():
        writer.write(story.take())
        owner.execute("UPDATE session SET ended_at = now() - interval '1 day' WHERE id = %s", [story.session])
    monkeypatch.setattr(source, "EVERY_S", 0.0)
    owner.execute("NOTIFY cuzk")
    await until(lambda: live.state.heads == story.state.heads, 2)


async def test_anomalies_are_counted_up_to_a_bound(
    site: Database, writer: Writer, story: Story, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.write(story.take())
    owner.execute(
        "INSERT INTO anomaly (session_id, number, at, code, entity, entity_id, old, new, detail)"
        " SELECT %s, n, now(), 'c', 'worker', 'w', '', '', '{}' FROM generate_series(1, 120) n",
        [story.session],
    )
    reader = source.Reader()
    assert (await reader.pulse([story.session]))[story.session]["anomalies"] == 120
    monkeypatch.setattr(source, "MOST_ANOMALIES", 100)
    assert (await reader.pulse([story.session]))[story.session]["anomalies"] == 100
    await reader.close()


async def test_gauges_and_ages_travel_beside_the_rows(live: Hub, writer: Writer, story: Story) -> None:
    writer.write(story.take())
    writer.beat(story.session, {"memory_rss_bytes": 123})
    await live.ready.wait()
    page = Page(live)
    await page.subscribe()
    await until(lambda: any(f.get("live", {}).get(story.session) for f in page.frames))
    told = [f["live"][story.session] for f in page.frames if f.get("live")][-1]
    assert told["gauges"] == {"memory_rss_bytes": 123}
    assert 0 <= page.frames[-1]["now_us"] - told["heartbeat_us"] < 10_000_000
    assert told["anomalies"] == 0


async def test_jobs_that_ended_leave_again(
    live: Hub, writer: Writer, story: Story, monkeypatch: pytest.MonkeyPatch
) -> None:
    await live.ready.wait()
    for number in range(150):
        story.submit("window-post", f"job-{number}")
    story.run(300)
    writer.write(story.take())
    await until(lambda: live.state.heads == story.state.heads)
    await until(lambda: len(live.state.views[Entity.JOB]) <= 32)
    assert live.state.ended == {"window-post done": 150}
    assert len(live.state.views[Entity.ATTEMPT]) <= 32
    assert len(live.state.latest) <= 32


async def test_an_ack_that_was_never_sent_is_refused(live: Hub) -> None:
    await live.ready.wait()
    page = Page(live)
    with pytest.raises(BadFrame, match="ack: not between 0 and 0"):
        await live.ack(page.viewer, 3)


async def test_a_viewer_who_reads_nothing_for_long_is_closed_and_told_why(
    live: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer, "WINDOW", 2)
    monkeypatch.setattr(viewer, "SLOW_S", 0.2)
    monkeypatch.setattr(hub_module, "PULSE_S", 0.1)
    await live.ready.wait()
    deaf, reader = Page(live), Page(live)
    await deaf.subscribe()
    await reader.subscribe()

    def told() -> bool:
        reader.viewer.acked = reader.viewer.sent
        return deaf.closed is not None

    await until(told)
    assert deaf.closed == CloseCode.TOO_SLOW and deaf.viewer not in live.viewers
    assert reader.closed is None and reader.viewer in live.viewers


async def test_a_socket_that_refuses_what_is_sent_costs_nobody_else_anything(
    live: Hub, writer: Writer, story: Story
) -> None:
    await live.ready.wait()
    closing, reader = Page(live), Page(live)
    await closing.subscribe()
    await reader.subscribe()

    async def refuse(_: str) -> None:
        raise RuntimeError("Attempt to send on a closed protocol")

    closing.viewer._send = refuse
    for name in ("one", "two"):
        story.submit("winning-post", name)
        writer.write(story.take())
        await until(lambda: reader.state.heads == story.state.heads)
    assert closing.viewer not in live.viewers and reader.viewer in live.viewers

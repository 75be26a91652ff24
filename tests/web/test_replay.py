"""Any moment of the log is what the live page's hub had folded then, with checkpoints and without."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection

from cuzk_web import formats
from cuzk_web.history import checkpoints, log, replay
from cuzk_web.history.models import Checkpoint
from cuzk_web.live.retention import forget
from prover.states import FleetState, Transition, apply
from tests.live.story import SITE, Story
from tests.live.writer import Writer

from .conftest import Login

pytestmark = [pytest.mark.postgres, pytest.mark.django_db]

START_US = 1_790_000_000 * 1_000_000  # in the past
SPARSE = 200  # rows between checkpoints here


class DjangoWriter(Writer):
    """Writes over Django's connection, in the test's transaction."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT")  # now there is a transaction, and the writer's are parts of it
        super().__init__(connection.connection)


@pytest.fixture
def told(db: None) -> list[Transition]:
    """A story of two provers, one of which is lost, written down; its transitions as they happened."""
    first = Story(START_US, seed=5, fail=lambda _request, partition, no: partition == 2 and no == 1)
    second = Story(START_US + 400_000, prover="prover-2", devices=1, seed=6)
    second._seqs = first._seqs  # the site numbers what both submit
    rows: list[Transition] = []
    writer = DjangoWriter()
    for story in (first, second):
        story.start()
    for n in range(40):
        first.submit("window-post", f"deadline-{n}", partitions=3)
        first.run(4)
        rows += first.take()
    rows.sort(key=lambda t: (t.at_us, t.session, t.seq))
    writer.write(rows)
    second_rows = second.take()
    writer.write(second_rows)
    return sorted(rows + second_rows, key=lambda t: (t.at_us, t.session, t.seq))


@pytest.fixture
def sparse(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(checkpoints, "EVERY", SPARSE)
    yield


def folded(rows: list[Transition], us: int) -> dict[str, Any]:
    """What a page shows that has folded everything until then."""
    state = FleetState()
    for t in rows:
        if t.at_us <= us:
            apply(state, t)
    return forget(state, us).to_json()


def moments(rows: list[Transition]) -> list[int]:
    """Before, at and after some of the rows, and far after."""
    some = [rows[n].at_us for n in range(0, len(rows), 97)]
    return sorted({*some, *(us - 1 for us in some), *(us + 1 for us in some), rows[-1].at_us + 10**9})


def shown(us: int) -> dict[str, Any]:
    value = replay.at(formats.from_us(us)).to_json()["state"]
    return {"views": value["views"], "ended": value["ended"]}


def assert_replays(rows: list[Transition]) -> None:
    for us in moments(rows):
        expected = folded(rows, us)
        assert shown(us) == {"views": expected["views"], "ended": expected["ended"]}, us


def test_every_moment_is_the_fold_of_what_had_happened(told: list[Transition]) -> None:
    assert_replays(told)
    assert not Checkpoint.objects.exists()


def test_checkpoints_change_nothing_but_what_is_read(told: list[Transition], sparse: None, monkeypatch: Any) -> None:
    assert checkpoints.extend() == len(told) // SPARSE > 5
    assert checkpoints.extend() == 0  # what is left is too little for another
    times = [formats.to_us(at) for at in Checkpoint.objects.values_list("at", flat=True)]
    assert times == sorted(times)
    monkeypatch.setattr(replay, "MOST_ROWS", SPARSE + 20)
    assert_replays(told)


def test_what_has_not_settled_waits(told: list[Transition], sparse: None) -> None:
    middle = formats.from_us(told[len(told) // 2].at_us)
    checkpoints.extend(now=middle + checkpoints.SETTLED)
    assert Checkpoint.objects.latest("at").at <= middle
    assert checkpoints.extend() > 0
    assert_replays(told)


def test_as_many_are_stored_as_are_asked_for(told: list[Transition], sparse: None) -> None:
    stored = [checkpoints.extend(most=2) for _ in range(len(told) // SPARSE)]
    assert stored[:2] == [2, 2] and sum(stored) == len(told) // SPARSE
    assert_replays(told)


def test_rows_that_come_late_count_all_the_same(told: list[Transition], sparse: None) -> None:
    """The journal of a prover was away: its rows are older than the checkpoint that was made meanwhile."""
    site = [t for t in told if t.session == SITE]
    checkpoints.extend()
    late = Story(told[0].at_us + 1000, prover="late", devices=1, seed=9)
    late.start()
    late.run(1)
    rows = late.take()
    DjangoWriter().write(rows)
    assert site
    end = told[-1].at_us + 10**6
    assert "late/0/0" in shown(end)["views"]["worker"]


def test_a_page_goes_on_by_the_rows_between(told: list[Transition]) -> None:
    cuts = [told[n].at_us for n in (60, 61, 400, 900)]
    state = replay.at(formats.from_us(cuts[0])).cut.state
    for after, until in itertools.pairwise(cuts):
        found = replay.piece(formats.from_us(after), formats.from_us(until))
        assert found is not None
        for row in found["rows"]:
            t = Transition.from_row(row)
            assert t.seq == state.heads.get(t.session, 0) + 1
            apply(state, t)
        expected = folded(told, until)
        assert forget(state, until).to_json()["views"] == expected["views"]


def test_gauges_are_those_of_the_last_sample_or_none(told: list[Transition]) -> None:
    session = next(t.session for t in told if t.session != SITE)
    at = formats.from_us(told[-1].at_us)
    with connection.cursor() as cursor:
        for seconds in (0, 2):
            cursor.execute(
                "INSERT INTO sample (session_id, at, gauges) VALUES (%s, %s, %s)",
                [session, at - timedelta(seconds=seconds), json.dumps({"rss_bytes": seconds})],
            )
    assert replay.at(at).live[session]["gauges"] == {"rss_bytes": 0}
    assert replay.at(at - timedelta(seconds=1)).live[session]["gauges"] == {"rss_bytes": 2}
    for other in (at - timedelta(seconds=3), at + timedelta(seconds=80)):
        assert replay.at(other).live[session] == {"sample_us": None, "gauges": None, "anomalies": 0}


def test_where_a_log_stood(told: list[Transition]) -> None:
    session = next(t.session for t in told if t.session != SITE)
    mine = [t for t in told if t.session == session]
    for n in (0, 1, 7, len(mine) - 1):
        for us in (mine[n].at_us - 1, mine[n].at_us):
            expected = sum(t.at_us <= us for t in mine)
            assert log.heads({}, None, formats.from_us(us)).get(session, 0) == expected


def test_the_page_and_what_it_reads(login: Login, told: list[Transition]) -> None:
    vera = login("vera")
    when = f"{formats.from_us(told[500].at_us):%Y-%m-%dT%H:%M:%S.%f}"
    assert "replay-slider" in vera.get(f"/replay/?at={when}").content.decode()
    answer = vera.get(f"/replay/state?at={when}").json()
    assert answer["now_us"] == told[500].at_us and answer["state"]["views"]["worker"]
    assert vera.get("/replay/").status_code == 200
    assert vera.get("/replay/?at=2150-01-01").status_code == 200  # no later than now
    assert vera.get("/replay/?at=1999-01-01").status_code == 200  # nothing was there
    for path in ("/replay/", "/replay/state", "/replay/rows"):
        assert login("").get(path).status_code == 302 and login("sam").get(path).status_code == 403
        assert vera.post(path).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "?at=yesterday", "?at=9999-12-31", "?when=now", "?at=%00", "state", "state?at=x", "rows",
        "rows?after=2026-01-01",
        "rows?after=2026-01-01&until=2026-01-02", "rows?after=2026-01-02&until=2026-01-01", "rows?at=2026-01-01",
    ],
)  # fmt: skip
def test_a_bad_parameter_is_a_clear_400(login: Login, path: str) -> None:
    assert login("vera").get(f"/replay/{path}").status_code == 400


def test_what_is_not_prepared_says_so(login: Login, told: list[Transition], monkeypatch: Any) -> None:
    monkeypatch.setattr(replay, "MOST_ROWS", 10)
    answer = login("vera").get("/replay/state?at=2126-01-01")
    assert answer.status_code == 503 and answer.json()["code"] == "replay_not_ready"
    assert "replay_not_ready" in login("vera").get("/replay/").content.decode()
    monkeypatch.setattr(replay, "PIECE_ROWS", 10)
    after = formats.from_us(told[0].at_us)
    query = f"after={after:%Y-%m-%dT%H:%M:%S}&until={after + timedelta(minutes=1):%Y-%m-%dT%H:%M:%S}"
    assert login("vera").get(f"/replay/rows?{query}").json() == {"reset": True}
    assert datetime.now(UTC) > after

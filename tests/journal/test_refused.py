"""A record that the database refuses is set aside alone, with a code; everything else gets in, and tracking goes on."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from prover.journal.aside import Aside
from prover.journal.batch import placeholder
from prover.journal.records import Anomaly, Delivery, Proof, Record, Sample
from prover.journal.spool import Spool, left_behind
from prover.journal.spool import read as spool_read
from prover.stack.roles import OWNER
from prover.states import Entity, Transition
from tests.journal.helpers import PROOF, Prover, assert_fold_equals_tables, eventually, running, submit_one
from tests.postgres import Database

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(120)]

Poison = Callable[[str], Record]
LONG = "".join(chr(0x4E00 + n * 7919 % 20000) for n in range(9000))  # no index takes it, however compressed
POISONS: dict[str, Poison] = {
    "a proof of no job": lambda _: Proof("no uuid", 0, 1, PROOF, 10),
    "a proof with half a character": lambda _: Proof("\ud800", 0, 1, PROOF, 10),
    "a partition beyond the column": lambda job: Proof(job, 1 << 40, 1, PROOF, 10),
    "a delivery with a NUL": lambda _: Delivery("a\0b", PROOF, 10),
    "a time beyond the calendar": lambda job: Proof(job, 3, 1, PROOF, 1 << 62),
    "an anomaly of no entity": lambda _: Anomaly(1 << 70, 10, "x", "job", "j", "", "", {}),
    "a sample before all times": lambda _: Sample(-(1 << 60), {}),
}  # fmt: skip
MOVES = {
    "a job that is none": {"job": "no uuid"},
    "a number beyond the column": {"mono_ns": 1 << 70},
    "a time beyond the calendar": {"at_us": 1 << 62},
    "an id that no index takes": {"entity": Entity.HOLDING, "entity_id": LONG, "new": "loading", "job": None},
    "a word with a tab": {"new": "on\tline\t"},
}


def poisoned_move(prover: Prover, damage: dict[str, Any]) -> None:
    """The tracker makes a move; on its way to the journal it is damaged."""
    put = prover.journal._writer.put
    prover.tracker._sinks = (lambda made: put(replace(made, **damage)),)
    assert prover.tracker.holding("key:x", "loading", {})
    prover.tracker._sinks = (prover.journal.sink,)


def refused(folder: Path) -> list[dict[str, Any]]:
    """What was set aside."""
    [path] = folder.glob("*.refused")
    assert path.stat().st_mode & 0o777 == 0o600
    return [json.loads(line) for line in path.read_text().splitlines()]


def assert_delivered(database: Database, jobs: int) -> None:
    assert assert_fold_equals_tables(database).ended == {"window-post done": jobs}
    with database.connect(OWNER) as owner:
        assert owner.execute("SELECT proof FROM delivery").fetchall() == [(PROOF,)] * jobs
        assert owner.execute("SELECT count(*) FROM proof").fetchone() == (jobs,)


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
def test_the_live_writer_sets_one_record_aside(database: Database, tmp_path: Path, poison: Any) -> None:
    job = submit_one(database)
    with running(database, tmp_path) as prover:
        (claimed,) = prover.take()
        prover.journal._writer.put(poison(job))
        prover.prove(claimed)
        assert prover.journal.flush(20)
        assert prover.journal.healthy
        assert_delivered(database, 1)
        [left] = refused(tmp_path)
        assert left["code"] == "record_refused" and left["error"]
        assert left["record"][0] == type(poison(job)).__name__.lower()
        with database.connect(OWNER) as owner:
            marks = owner.execute("SELECT entity, detail->>'code' FROM anomaly WHERE code = 'record_refused'")
            assert marks.fetchall() == [(left["record"][0], "record_refused")]


@pytest.mark.parametrize("damage", MOVES.values(), ids=MOVES)
def test_a_refused_move_leaves_a_mark_in_the_log(database: Database, tmp_path: Path, damage: dict[str, Any]) -> None:
    submit_one(database)
    with running(database, tmp_path) as prover:
        (claimed,) = prover.take()
        poisoned_move(prover, damage)
        prover.prove(claimed)
        assert prover.journal.flush(20) and prover.journal.healthy
        assert_delivered(database, 1)
        [left] = refused(tmp_path)
        assert left["record"][0] == "transition"
        with database.connect(OWNER) as owner:
            found = owner.execute("SELECT seq, reason FROM transition WHERE reason LIKE 'record_%'").fetchall()
        assert found == [(left["record"][2], "record_refused")]


def test_nothing_is_claimed_while_a_refused_record_can_be_kept_nowhere(database: Database, tmp_path: Path) -> None:
    folder = tmp_path / "spool"
    with running(database, folder) as prover:
        blocked = folder / f"{prover.session}.refused"
        blocked.mkdir(parents=True)
        prover.journal._writer.put(POISONS["a proof of no job"](""))
        eventually(lambda: prover.journal.trouble == "spool_full")
        submit_one(database)
        assert prover.take() == []
        blocked.rmdir()
        eventually(lambda: prover.journal.healthy)
        assert len(refused(folder)) == 1
        (claimed,) = prover.take()
        prover.prove(claimed)
        assert prover.journal.flush()
        assert_delivered(database, 1)


# -- what a dead session left ------------------------------------------------------------------------------------------


def abandoned(database: Database, folder: Path, poisons: Iterable[Poison] = (), *, lost: bool = False) -> str:
    """A session that proves a job, of which all is in its spool, poison in the midst, and that has died; its job."""
    job = submit_one(database)
    with running(database, folder / "elsewhere") as prover:
        (claimed,) = prover.take()
        kept: list[Any] = []
        prover.tracker._sinks = (kept.append,)
        prover.journal.put_proof = lambda *words: kept.append(Proof(*words, 10))  # type: ignore[method-assign]
        prover.journal.put_delivery = lambda *words: kept.append(Delivery(*words, 10))  # type: ignore[method-assign]
        prover.prove(claimed)
    middle = len(kept) // 2
    spool = Spool(folder, prover.session)
    spool.append([*kept[:middle], *(poison(job) for poison in poisons), *kept[middle:]])
    spool.close()
    with database.connect(OWNER) as owner:
        owner.execute("UPDATE session SET pid = 0 WHERE id = %s", [prover.session])
        if lost:
            owner.execute("SELECT supersede_session(%s)", [prover.session])
    return job


@pytest.mark.parametrize("lost", [False, True], ids=["current", "lost"])
def test_one_refused_record_costs_a_spool_nothing_else(database: Database, tmp_path: Path, lost: bool) -> None:
    job = abandoned(database, tmp_path, POISONS.values(), lost=lost)
    with running(database, tmp_path) as prover:
        assert left_behind(tmp_path) == [] and not list(tmp_path.glob("*.unreadable"))
        kinds = [left["record"][0] for left in refused(tmp_path)]
        with database.connect(OWNER) as owner:
            assert owner.execute("SELECT job_id::text, proof FROM proof").fetchall() == [(job, PROOF)]
        if lost:  # its states came too late; the proof is a fact
            (claimed,) = prover.take()
            assert claimed.proofs == {0: PROOF}
            prover.prove(claimed)
            assert prover.journal.flush()
        assert_delivered(database, 1)
    expected = [type(poison(job)).__name__.lower() for poison in POISONS.values()]
    if lost:  # it delivers nothing any more
        expected.remove("delivery")
    assert sorted(kinds) == sorted(expected)


def test_a_refused_move_of_a_spool_leaves_a_mark_and_the_rest_follows(database: Database, tmp_path: Path) -> None:
    abandoned(database, tmp_path)
    [path] = tmp_path.glob("*.spool")
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(n for n, line in enumerate(lines) if b'"pending"' in line)
    value = json.loads(lines[number].split(b" ", 2)[2])
    value[9] = "no uuid"
    lines[number] = checked(value)
    path.write_bytes(b"".join(lines))
    with running(database, tmp_path):
        assert refused(tmp_path)[0]["record"] == value
        assert_delivered(database, 1)


def test_a_damaged_line_is_set_aside_as_it_is(database: Database, tmp_path: Path) -> None:
    abandoned(database, tmp_path)
    [path] = tmp_path.glob("*.spool")
    with path.open("ab") as file:
        file.write(b"rubbish\n" + checked(["sample", "not a time", {}]))
    with running(database, tmp_path):
        assert [left["code"] for left in refused(tmp_path)] == ["record_damaged"] * 2
        assert refused(tmp_path)[0]["line"] == "rubbish\n"
        assert_delivered(database, 1)


@pytest.mark.parametrize("part", ["first", "middle", "last", "last two"])
def test_a_damaged_line_leaves_a_mark_wherever_it_is(database: Database, tmp_path: Path, part: str) -> None:
    """At the end too, where only what the session says afterwards shows that something is missing."""
    submit_one(database)
    with running(database, tmp_path) as prover:
        (claimed,) = prover.take()
        head = prover.tracker.snapshot().heads[prover.session]
        held: list[Any] = []
        writer = prover.journal._writer
        prover.tracker._sinks = (held.append,)
        for n in range(4):
            assert prover.tracker.holding(f"key:{n}", "loading", {})
        spool = Spool(tmp_path, prover.session)
        spool.append(held)
        spool.close()
        lines = spool.path.read_bytes().splitlines(keepends=True)
        damaged = {"first": [1], "middle": [2], "last": [4], "last two": [3, 4]}[part]
        for n in damaged:
            lines[n] = lines[n].replace(b"loading", b"l0ading")
        spool.path.write_bytes(b"".join(lines))
        with database.connect(OWNER) as owner:
            writer._ledger.replay(owner, spool_read(spool.path, writer._aside.keep_line).records)
        spool.path.unlink()
        prover.tracker._sinks = (prover.journal.sink,)
        prover.prove(claimed)
        assert prover.journal.flush(20) and prover.journal.healthy
        assert_delivered(database, 1)
        assert [left["code"] for left in refused(tmp_path)] == ["record_damaged"] * len(damaged)
    with database.connect(OWNER) as owner:
        marks = owner.execute("SELECT seq FROM transition WHERE reason = 'record_damaged' ORDER BY seq").fetchall()
    assert marks == [(head + n,) for n in damaged]


def test_what_is_refused_again_is_set_aside_once(tmp_path: Path) -> None:
    """A batch is tried again as long as the database is in trouble, and a spool at each start."""
    error = ValueError("no")
    poisons = [poison("j") for poison in POISONS.values()]
    for _ in range(2):  # a process, and its successor
        aside = Aside(tmp_path, "s")
        for attempt in range(3):
            for poison in poisons:
                aside.keep(poison, ValueError(f"attempt {attempt}"))
            aside.keep_line(b"rubbish\xff\n", None, error)
            aside.keep_line(b"odd\n", ["sample", "\ud800", {}], error)
        assert aside.empty
    assert len(refused(tmp_path)) == len(poisons) + 2
    Aside(tmp_path, "s").keep(Sample(5, {}), error)
    assert len(refused(tmp_path)) == len(poisons) + 3


def test_a_batch_that_is_tried_again_sets_aside_once(database: Database, tmp_path: Path) -> None:
    """The poison is found, and then the database goes away before the rest is written."""
    job = submit_one(database)
    with running(database, tmp_path) as prover:
        (claimed,) = prover.take()
        with database.connect(OWNER) as owner:
            owner.execute("ALTER TABLE counter RENAME TO elsewhere")  # which the job's end needs
            prover.journal._writer.put(POISONS["a partition beyond the column"](job))
            prover.prove(claimed)
            eventually(lambda: prover.journal.trouble == "database_away")
            before = prover.journal._writer._retry_at
            eventually(lambda: prover.journal._writer._retry_at > before + 1)  # it was tried again
            owner.execute("ALTER TABLE elsewhere RENAME TO counter")
        assert prover.journal.flush(20)
        assert_delivered(database, 1)
        assert len(refused(tmp_path)) == 1


def test_what_the_database_cannot_do_at_all_sets_nothing_aside(database: Database, tmp_path: Path) -> None:
    """A table that is missing is no fault of a record: the spool stays as it is."""
    abandoned(database, tmp_path)
    with database.connect(OWNER) as owner:
        owner.execute("ALTER TABLE proof RENAME TO elsewhere")
    with pytest.raises(Exception, match="proof"), running(database, tmp_path):
        pass
    assert len(list(tmp_path.glob("*.spool"))) == 1 and not list(tmp_path.glob("*.refused"))
    with database.connect(OWNER) as owner:
        owner.execute("ALTER TABLE elsewhere RENAME TO proof")
    with running(database, tmp_path):
        assert_delivered(database, 1)


def test_a_mark_never_has_what_was_refused() -> None:
    odd = Transition("s", 7, 1 << 62, 1 << 70, Entity.JOB, LONG, "", "on\tline", job="no uuid", detail={"x": LONG})
    mark = placeholder("s", odd, "record_refused")
    assert (mark.seq, mark.entity, mark.entity_id, mark.job, mark.detail) == (7, Entity.SESSION, "s", None, {})
    assert 0 <= mark.at_us < 1 << 60 and 0 <= mark.mono_ns < 1 << 63


def checked(value: object) -> bytes:
    text = json.dumps(value).encode()
    return b"%x %x %s\n" % (len(text), zlib.crc32(text), text)

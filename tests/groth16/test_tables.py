"""Bases and tables on disk: mapped, not made again; checked, never trusted; no failure of a proof."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from prover.algebra import bases as made_bases
from prover.algebra.bases import Kept, Layout, kept
from prover.algebra.curve import G1, G2, Group
from prover.algebra.fields import FR
from prover.algebra.msm import FixedBases
from prover.groth16 import bases as key_bases
from prover.groth16 import tables
from prover.groth16.layouts import Section, choose
from prover.groth16.prover import ProvingKey, start
from prover.groth16.tables import TablesNotKept, TableStore
from prover.reference import curve as reference
from tests.algebra.conftest import Curve
from tests.groth16.vectors import assignment, canon, parameters, published_proofs, recorded

OWNER = "0123456789abcdef0123456789abcdef"


def points(count: int, group: Group = G1) -> np.ndarray:
    """Points, the second of which is infinity."""
    curve = Curve(group)
    rows = curve.points_of(curve.progression(count))
    return curve.bytes_of([*rows[:1], None, *rows[2:]])


def layout(count: int, group: Group = G1, tables: int = 1) -> Layout:
    return Layout.of(group, count, tables=tables)


def same(a: Kept | None, b: Kept) -> bool:
    return a is not None and np.array_equal(a.rows, b.rows) and np.array_equal(a.finite, b.finite)


def rows_file(store: TableStore) -> Path:
    (path,) = store.folder.glob("*/*.rows")
    return path


@pytest.mark.parametrize("group", [G1, G2], ids=["G1", "G2"])
@pytest.mark.parametrize(("count", "tables"), [(1, 1), (3, 4), (21, 1), (21, 3)])
def test_what_is_mapped_is_what_is_made(
    tmp_path: Path, group: Group, count: int, tables: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the bases are made in several pieces, and by another process' store."""
    wanted, data = layout(count, group, tables), points(max(count, 3), group)[:count]
    expected = kept(wanted, data)
    monkeypatch.setattr(made_bases, "PIECE", 8)
    store = TableStore(tmp_path / "tables")
    assert store.find(OWNER, "h", wanted) is None
    assert same(store.make(OWNER, "h", wanted, data), expected)
    assert same(TableStore(tmp_path / "tables", threads=2).find(OWNER, "h", wanted), expected)
    assert store.find(OWNER, "a", wanted) is None and store.find("f" * 32, "h", wanted) is None
    path = rows_file(store)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and os.listdir(path.parent) == [path.name]
    assert [(file.section, file.copies) for file in store.files(OWNER)] == [("h", wanted.windows.copies)]


def test_sums_over_mapped_rows_are_the_same(tmp_path: Path) -> None:
    curve, wanted, data = Curve(G1), layout(40, tables=3), points(40)
    bases = FixedBases.of(TableStore(tmp_path).make(OWNER, "h", wanted, data))
    scalars = [5] * 40
    expected = reference.msm(curve.points_of(data), scalars)
    assert bases.msm(FR.bytes_of(scalars)).tobytes() == reference.to_bytes(expected, 1)
    assert not bases._rows.flags.writeable


def test_no_bases_at_all(tmp_path: Path) -> None:
    wanted, nothing = layout(0), np.zeros((0, 96), np.uint8)
    assert same(TableStore(tmp_path).make(OWNER, "h", wanted, nothing), kept(wanted, nothing))
    assert same(TableStore(tmp_path).find(OWNER, "h", wanted), kept(wanted, nothing))


@pytest.mark.parametrize("place", [3, 9, 13, 40, 80, 4096, 9000, -1])
def test_a_flipped_bit_anywhere_is_seen_and_made_anew(
    tmp_path: Path, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    store, wanted, data = TableStore(tmp_path), layout(9, tables=2), points(9)
    store.make(OWNER, "h", wanted, data)
    content = bytearray(rows_file(store).read_bytes())
    content[place] ^= 1
    rows_file(store).write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert store.find(OWNER, "h", wanted) is None
    assert "tables discarded" in caplog.text and str(rows_file(store)) in caplog.text
    assert same(store.make(OWNER, "h", wanted, data), kept(wanted, data))
    assert same(store.find(OWNER, "h", wanted), kept(wanted, data))


@pytest.mark.parametrize("change", [lambda b: b[:-1], lambda b: b + b"\0", lambda b: b"", lambda b: b[: len(b) // 2]])
def test_a_file_of_another_size_is_not_mapped(tmp_path: Path, change: object, caplog: pytest.LogCaptureFixture) -> None:
    store, wanted, data = TableStore(tmp_path), layout(9), points(9)
    store.make(OWNER, "h", wanted, data)
    rows_file(store).write_bytes(change(rows_file(store).read_bytes()))  # type: ignore[operator]
    assert store.find(OWNER, "h", wanted) is None
    assert "bytes, not" in caplog.text


def test_a_file_of_another_key_section_format_or_layout_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever name it was given."""
    store, wanted, data = TableStore(tmp_path), layout(9, tables=2), points(9)
    store.make(OWNER, "h", wanted, data)
    content = rows_file(store).read_bytes()
    other = Layout.of(G1, 9, tables=2, window_bits=7)
    for owner, section, another in [("f" * 32, "h", wanted), (OWNER, "a", wanted), (OWNER, "h", other)]:
        path = store._path(owner, section, another)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        assert store.find(owner, section, another) is None
    monkeypatch.setattr(tables, "VERSION", tables.VERSION + 1)
    assert store.find(OWNER, "h", wanted) is None


def test_a_full_disk_is_an_error_with_a_code_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    store = TableStore(tmp_path)
    with pytest.raises(TablesNotKept, match="No space left"):
        store.make(OWNER, "h", layout(9), points(9))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_folder_that_cannot_be_made_is_an_error_with_a_code(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = TableStore(tmp_path / "file" / "tables")
    assert store.find(OWNER, "h", layout(9)) is None
    with pytest.raises(TablesNotKept, match="Not a directory"):
        store.make(OWNER, "h", layout(9), points(9))


def test_what_ends_the_work_leaves_nothing(tmp_path: Path) -> None:
    class Ending(Exception):
        pass

    def told(part: float) -> None:
        if part:
            raise Ending

    with pytest.raises(Ending):
        TableStore(tmp_path).make(OWNER, "h", layout(9), points(9), told)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_one_process_makes_a_file_and_another_waits_for_it(tmp_path: Path) -> None:
    """The lock is a real process', which may also be killed in the midst of its work."""
    store, wanted, data = TableStore(tmp_path), layout(9), points(9)
    path = store._path(OWNER, "h", wanted).with_suffix(".making")
    path.parent.mkdir()
    hold = (
        "import fcntl,sys; f=open(sys.argv[1],'w'); print('half',file=f,flush=True); fcntl.flock(f,2); print(flush=1)"
    )
    hold += "; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout and other.stdout.readline()
        with pytest.raises(TablesNotKept, match="another process"):
            store.make(OWNER, "h", wanted, data)
        waited, found = threading.Event(), list[Kept]()
        waiter = threading.Thread(
            target=lambda: found.append(store.make(OWNER, "h", wanted, data, lambda _: waited.set()))
        )
        waiter.start()
        assert waited.wait(30) and not found
        other.kill()
        waiter.join(30)
    assert same(found[0], kept(wanted, data)) and same(store.find(OWNER, "h", wanted), kept(wanted, data))
    assert not path.exists()


def test_what_a_killed_maker_of_another_layout_left_is_removed(tmp_path: Path) -> None:
    """Not what another process works on, nor another section's."""
    store = TableStore(tmp_path)
    wanted, killed, running = (store._path(OWNER, "h", layout(9, tables=tables)) for tables in (1, 2, 3))
    left, busy, other = (path.with_suffix(".making") for path in (killed, running, store._path(OWNER, "l", layout(9))))
    wanted.parent.mkdir()
    for path in (left, busy, other):
        path.write_bytes(b"half")
    with busy.open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        store.make(OWNER, "h", layout(9), points(9))
    assert set(wanted.parent.iterdir()) == {wanted, busy, other}


# -- keys --------------------------------------------------------------------------------------------------------------


def proof(key: ProvingKey) -> bytes:
    return start(key, assignment("tiny"), canon("r"), canon("s")).finish()


def test_a_key_is_encoded_once_and_then_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = published_proofs("tiny")[1][0]
    store = TableStore(tmp_path)
    plain = ProvingKey(parameters("tiny"), recorded("tiny"), store=store)
    assert proof(plain) == expected and len(store.files(parameters("tiny").digest())) == 5
    with_tables = ProvingKey(parameters("tiny"), recorded("tiny"), store=store, table_bytes=5 * plain.nbytes)
    assert with_tables.nbytes == plain.nbytes
    with_tables.tabulate(5 * plain.nbytes)
    assert plain.nbytes < with_tables.nbytes <= 5 * plain.nbytes and proof(with_tables) == expected

    def never(*_: object) -> None:
        raise AssertionError("made again")

    monkeypatch.setattr(tables, "pieces", never)
    monkeypatch.setattr(key_bases, "kept", never)
    again = ProvingKey(parameters("tiny"), recorded("tiny"), store=store, table_bytes=5 * plain.nbytes)
    told: list[float] = []
    again.tabulate(5 * plain.nbytes, told.append)
    assert told == [] and again.nbytes == with_tables.nbytes and proof(again) == expected
    assert ProvingKey(parameters("tiny"), recorded("tiny"), store=store).nbytes == plain.nbytes


def test_a_full_disk_is_no_failure_of_a_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    store = TableStore(tmp_path / "file")
    key = ProvingKey(parameters("tiny"), recorded("tiny"), store=store)
    assert "bases not kept" in caplog.text
    with pytest.raises(TablesNotKept, match="Not a directory"):
        key.refuse_unkept()
    before = key.nbytes
    with pytest.raises(TablesNotKept):
        key.tabulate(5 * before)
    assert key.nbytes == before and proof(key) == published_proofs("tiny")[1][0]


def test_a_second_process_waits_for_the_bases_of_the_first_and_maps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The lock is of another open file, as another process' is."""
    store, owner, refused = TableStore(tmp_path), parameters("tiny").digest(), threading.Event()
    claimed, made = tables._claimed, list[ProvingKey]()

    def watched(descriptor: int, path: Path) -> bool:
        found = claimed(descriptor, path)
        if not found:
            refused.set()
        return found

    monkeypatch.setattr(tables, "_claimed", watched)
    monkeypatch.setattr(tables, "_LOOK_EVERY_S", 0.01)
    plain = ProvingKey(parameters("tiny"), recorded("tiny"))._bases["h"].layout
    making = store._path(owner, "h", plain).with_suffix(".making")
    making.parent.mkdir()
    second = threading.Thread(target=lambda: made.append(ProvingKey(parameters("tiny"), recorded("tiny"), store=store)))
    with making.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        second.start()
        assert refused.wait(30) and not made
    second.join(60)
    made[0].refuse_unkept()
    assert len(store.files(owner)) == 5 and "bases not kept" not in caplog.text


# -- which tables ------------------------------------------------------------------------------------------------------

WINDOW = {
    "h": Section(G1, 32767, 32767),
    "l": Section(G1, 22128, 22128),
    "b_g2": Section(G2, 16031, 16031),
}


def total(chosen: dict[str, Layout]) -> tuple[int, float]:
    cost = sum(WINDOW[name].cost(found) for name, found in chosen.items())
    return sum(found.nbytes for found in chosen.values()), cost


def test_more_memory_never_costs_more_and_is_never_exceeded() -> None:
    plain, most = total(choose(WINDOW, 0))
    before = most
    for memory in range(plain, 12 * plain, plain // 2):
        taken, cost = total(choose(WINDOW, memory))
        assert taken <= memory and cost <= 1.02 * before
        before = min(before, cost)
    assert before < 0.9 * most


def test_half_of_the_memory_costs_less_than_a_third_more() -> None:
    all_of_it, least = total(choose(WINDOW, 1 << 40))
    for halved in (all_of_it // 2, all_of_it // 4):
        assert total(choose(WINDOW, halved))[1] <= 1.3 * least


def test_a_section_of_bits_gets_no_tables() -> None:
    """Tables of a million wires, a thousand of which are no bits, would save next to nothing."""
    sections = {"l": Section(G1, 1 << 20, 1 << 10), "h": WINDOW["h"]}
    chosen = choose(sections, 1 << 30)
    assert not chosen["l"].fixed and chosen["h"].fixed
    assert choose({"l": Section(G1, 0, 0)}, 1 << 30)["l"].rows == 1


def test_what_nobody_works_on_or_uses_is_removed_when_the_store_is_opened(tmp_path: Path) -> None:
    owner = tmp_path / "owner"
    owner.mkdir()
    stale, busy, old, used = (owner / name for name in ("h-1-1.making", "l-1-1.making", "h-1-1.rows", "l-1-1.rows"))
    for path in (stale, busy, old, used):
        path.touch()
    month = time.time() - 31 * 86_400
    os.utime(old, (month, month))
    with busy.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        TableStore(tmp_path)
        assert sorted(owner.iterdir()) == sorted([busy, used])
    TableStore(tmp_path / "not there")


def test_tables_of_another_layout_go_when_they_are_replaced_and_unused_for_a_day(tmp_path: Path) -> None:
    store, data = TableStore(tmp_path), points(5)
    plain, first, second = (layout(5, tables=tables) for tables in (1, 2, 4))
    for one in (plain, first):
        store.make("owner", "h", one, data)
    paths = {one: store._path("owner", "h", one) for one in (plain, first, second)}
    store.make("owner", "h", second, data)
    assert all(path.exists() for path in paths.values()), "another prover may use them"
    paths[second].unlink()
    for one in (plain, first):
        os.utime(paths[one], (0, time.time() - 2 * 86_400))
    store.make("owner", "h", second, data)
    assert [paths[one].exists() for one in (plain, first, second)] == [True, False, True]
    os.utime(paths[second], (0, 0))
    store.find("owner", "h", second)
    assert time.time() - paths[second].stat().st_mtime < 60, "to map it is to use it"

"""The spool file: what was appended is read back, damage costs the damaged record alone, nothing in it is trusted."""

from __future__ import annotations

import errno
import json
import zlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover.journal import spool
from prover.journal.errors import SpoolFull
from prover.journal.ledger import fill_holes
from prover.journal.records import Anomaly, Delivery, Proof, Record, Sample, from_json, to_json
from prover.journal.spool import Spool
from prover.states import Entity, Transition

SESSION = "5e55105e-0000-4000-8000-000000000001"


def move(seq: int, detail: dict | None = None) -> Transition:
    return Transition(SESSION, seq, 10 * seq, seq, Entity.JOB, f"job-{seq}", "", "queued", detail=detail or {})


def filled(folder: Path, count: int = 5) -> Path:
    keep = Spool(folder, SESSION)
    keep.append([move(seq) for seq in range(1, count + 1)])
    keep.close()
    return keep.path


def seqs(path: Path) -> list[int]:
    return [record.seq for record in spool.read(path).records]


text = st.text(max_size=30)
records = st.one_of(
    st.builds(lambda s, d: move(s, {"x": d}), st.integers(1, 10**9), text),
    st.builds(Proof, text, st.integers(0, 99), st.integers(1, 9), st.binary(max_size=300), st.integers(0, 2**50)),
    st.builds(Delivery, text, st.binary(max_size=3000), st.integers(0, 2**50)),
    st.builds(Sample, st.integers(0, 2**50), st.dictionaries(text, st.integers())),
    st.builds(Anomaly, st.integers(1, 99), st.integers(0, 2**50), text, text, text, text, text, st.just({})),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(records, max_size=20))
def test_records_survive_their_json_form(items: list[Record]) -> None:
    assert [from_json(json.loads(json.dumps(to_json(item)))) for item in items] == items


def test_append_and_read(tmp_path: Path) -> None:
    keep = Spool(tmp_path / "new", SESSION)
    assert keep.empty and list(keep.read()) == []
    keep.append([move(1), move(2)])
    keep.append([move(3)])
    assert [record.seq for record in keep.read()] == [1, 2, 3]
    assert keep.path.stat().st_mode & 0o777 == 0o600
    assert keep.path.parent.stat().st_mode & 0o777 == 0o700
    keep.clear()
    assert keep.empty and not keep.path.exists()


def test_torn_at_every_byte(tmp_path: Path) -> None:
    """The machine died while a record was written: those before it are there, and it is no damage."""
    path = filled(tmp_path, 3)
    whole = path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == 10]
    for cut in range(ends[0], len(whole)):
        path.write_bytes(whole[:cut])
        content = spool.read(path)
        complete = sum(end <= cut for end in ends[1:])
        assert [record.seq for record in content.records] == list(range(1, complete + 1)), cut
        assert content.damaged == 0


def test_a_flipped_bit_costs_one_record(tmp_path: Path) -> None:
    path = filled(tmp_path, 4)
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    start = len(lines[0]) + len(lines[1])
    for position in range(start, start + len(lines[2]) - 1):  # the second record, without its newline
        for bit in (0, 3, 6):
            damaged = bytearray(whole)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            content = spool.read(path)
            found = [record.seq for record in content.records]
            assert found == [1, 3, 4], (position, bit)
            assert content.damaged >= 1


def test_a_lost_newline_costs_its_two_records(tmp_path: Path) -> None:
    path = filled(tmp_path, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2][:-1] + b"\x0b"
    path.write_bytes(b"".join(lines))
    assert seqs(path) == [1, 4]


def test_holes_are_filled_so_that_numbers_stay_dense(tmp_path: Path) -> None:
    dense = list(fill_holes(SESSION, iter([move(3), move(4), move(7)]), 1))
    assert [t.seq for t in dense] == [2, 3, 4, 5, 6, 7]
    assert [t.seq for t in dense if t.reason == "record_damaged"] == [2, 5, 6]


@pytest.mark.parametrize("content", [b"", b"\n", b"hello\n", b"4 0 null\n", b"\x00" * 100, b"ffffffffffff 0 x\n"])
def test_foreign_files(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / f"x{spool.SUFFIX}"
    path.write_bytes(content)
    found = spool.read(path)
    assert (found.session, list(found.records), found.damaged) == (None, [], 1)


def test_a_line_too_long_is_not_taken_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path, 1)
    monkeypatch.setattr(spool, "MAX_LINE", 400)
    with path.open("ab") as file:
        file.write(b"x" * 5000 + b"\n")
    content = spool.read(path)
    assert [record.seq for record in content.records] == [1]
    assert content.damaged >= 1


@pytest.mark.parametrize("value", [
    [], {}, 7, None, ["transition", 1], ["proof", "j", 0, 1, "not base64!", 0], ["proof", "j", "x", 1, "", 0],
    ["delivery", "j"], ["anomaly"], ["unheard", 1], ["proof", "j", 0, 1, "A" * (2 << 20), 0],
])  # fmt: skip
def test_checked_lines_with_nonsense_are_damage(tmp_path: Path, value: object) -> None:
    path = filled(tmp_path, 1)
    body = json.dumps(value).encode()
    with path.open("ab") as file:
        file.write(b"%x %x %s\n" % (len(body), zlib.crc32(body), body))
    content = spool.read(path)
    assert [record.seq for record in content.records] == [1]
    assert content.damaged == 1


def test_a_full_disk_keeps_what_was_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep = Spool(tmp_path, SESSION)
    keep.append([move(1)])
    real = spool.os.write

    def full(descriptor: int, data: bytes) -> int:
        if len(data) < 20:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, data[:17])

    with monkeypatch.context() as patch:
        patch.setattr(spool.os, "write", full)
        with pytest.raises(SpoolFull, match="No space left"):
            keep.append([move(2), move(3)])
    keep.append([move(2)])
    assert [record.seq for record in keep.read()] == [1, 2]


def test_a_spool_that_its_session_holds_is_not_left_behind(tmp_path: Path) -> None:
    keep = Spool(tmp_path, SESSION)
    keep.append([move(1)])
    assert spool.left_behind(tmp_path) == []
    keep.close()
    assert spool.left_behind(tmp_path) == [keep.path]

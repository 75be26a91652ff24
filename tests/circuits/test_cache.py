"""Recorded matrices on disk: what was written is read; what was damaged is noticed, reported and recorded anew."""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

from prover.circuits import cache
from prover.circuits.errors import CacheDamaged
from prover.circuits.matrices import Matrices, matrices_of
from tests.circuits.vectors import TINY, record_post

IDENTITY = TINY.identifier


@pytest.fixture(scope="module")
def matrices() -> Matrices:
    return matrices_of(record_post(TINY))


@pytest.fixture
def path(tmp_path: Path, matrices: Matrices) -> Path:
    path = tmp_path / "circuits" / "tiny.r1cs"
    cache.write(path, IDENTITY, matrices)
    return path


def assert_same(left: Matrices, right: Matrices) -> None:
    assert (left.num_inputs, left.num_aux) == (right.num_inputs, right.num_aux)
    for mine, theirs in zip((left.a, left.b, left.c), (right.a, right.b, right.c), strict=True):
        for part in ("indptr", "col", "coef"):
            np.testing.assert_array_equal(getattr(mine, part), getattr(theirs, part))
    np.testing.assert_array_equal(left.coefs, right.coefs)
    np.testing.assert_array_equal(left.bit_mask, right.bit_mask)


def resealed(content: bytes) -> bytes:
    """The content with a right checksum."""
    return content[:-32] + sha256(content[:-32]).digest()


def test_a_file_is_read_back_and_nothing_else_is_left(path: Path, matrices: Matrices) -> None:
    assert_same(cache.read(path, IDENTITY), matrices)
    assert [file.name for file in path.parent.iterdir()] == ["tiny.r1cs"]


def flip(position: int) -> Callable[[bytes], bytes]:
    def damage(content: bytes) -> bytes:
        damaged = bytearray(content)
        damaged[position] ^= 1
        return bytes(damaged)

    return damage


def poke(position: int, layout: str, value: int) -> Callable[[bytes], bytes]:
    """Overwrites a number and makes the checksum right again."""
    size = struct.calcsize(layout)
    return lambda content: resealed(content[:position] + struct.pack(layout, value) + content[position + size :])


DAMAGE = {
    "empty": (lambda content: b"", "0 bytes are no header"),
    "header cut": (lambda content: content[:50], "50 bytes are no header"),
    "cut": (lambda content: content[:-1], "its header announces"),
    "longer": (lambda content: content + b"\0", "its header announces"),
    "foreign": (lambda content: b"PK" + content[2:], "not a recorded circuit"),
    "other version": (poke(8, "<I", cache.VERSION + 1), f"version {cache.VERSION + 1}, not {cache.VERSION}"),
    "huge count": (poke(16 + 32 + 16, "<Q", 1 << 60), "its header announces"),
    "bit in the pointers": (flip(200), "checksum"),
    "bit in the terms": (flip(40_000), "checksum"),
    "bit in the checksum": (flip(-1), "checksum"),
    "pointer out of order": (poke(104, "<i", 5), "row pointers of A are out of order"),
    "negative pointer": (poke(108, "<i", -1), "row pointers of A are out of order"),
    "column out of range": (poke(104 + 3 * 4 * 1376, "<i", 1 << 20), "column of A does not exist"),
    "negative column": (poke(104 + 3 * 4 * 1376, "<i", -1), "column of A does not exist"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_noticed_reported_and_repaired(
    name: str, path: Path, matrices: Matrices, caplog: pytest.LogCaptureFixture
) -> None:
    damage, message = DAMAGE[name]
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CacheDamaged, match=message):
        cache.read(path, IDENTITY)
    with caplog.at_level(logging.WARNING):
        assert_same(cache.load_or_record(path, IDENTITY, lambda: matrices), matrices)
    assert message in caplog.text
    assert_same(cache.read(path, IDENTITY), matrices)


def test_coefficients_are_checked(path: Path, matrices: Matrices) -> None:
    content = path.read_bytes()
    bits = -(-matrices.num_aux // 8)
    first_coefficient = len(content) - 32 - bits - matrices.coefs.size
    path.write_bytes(resealed(content[:first_coefficient] + b"\xff" * 32 + content[first_coefficient + 32 :]))
    with pytest.raises(CacheDamaged, match="not canonical"):
        cache.read(path, IDENTITY)
    path.write_bytes(poke(first_coefficient - 2, "<H", len(matrices.coefs))(content))
    with pytest.raises(CacheDamaged, match="coefficient of C does not exist"):
        cache.read(path, IDENTITY)


def test_a_file_of_another_circuit_is_refused(path: Path) -> None:
    with pytest.raises(CacheDamaged, match="another one than FallbackPoSt of something else"):
        cache.read(path, "FallbackPoSt of something else")


def test_a_sound_file_is_not_recorded_again(path: Path, matrices: Matrices) -> None:
    def record() -> Matrices:
        raise AssertionError("recorded although the file is sound")

    assert_same(cache.load_or_record(path, IDENTITY, record), matrices)


def test_a_full_disk_costs_only_the_file(
    tmp_path: Path, matrices: Matrices, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    path = tmp_path / "tiny.r1cs"
    assert_same(cache.load_or_record(path, IDENTITY, lambda: matrices), matrices)
    assert "No space left on device" in caplog.text
    assert list(tmp_path.iterdir()) == []

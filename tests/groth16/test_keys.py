"""Key files: read as they lie, refused where they are damaged, with the place named."""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from py_arkworks_bls12381 import G1Point, Scalar

from prover.groth16.errors import KeyFileDamaged
from prover.groth16.keys import SECTIONS, Parameters, VerifyingKey
from prover.groth16.points import check_points
from tests.groth16.vectors import DATA, KINDS, load

TINY = DATA / "2k" / "tiny.params"
#: where the counts lie in the file
COUNT_AT = {"ic": 864, "h": 1156, "l": 1156 + 4 + 96 * 2047}


def changed(tmp_path: Path, change: bytes, at: int) -> Path:
    data = bytearray(TINY.read_bytes())
    data[at : at + len(change)] = change
    path = tmp_path / "changed.params"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_verifying_keys_come_back_byte_for_byte(kind: str) -> None:
    data = (DATA / "2k" / f"{kind}.vk").read_bytes()
    key = VerifyingKey.parse(data)
    assert key.to_bytes() == data
    assert len(data) == 868 + 96 * key.num_inputs


def test_sections_are_those_of_the_set_up_and_come_back() -> None:
    setup = load("tiny.setup.json")
    parameters = Parameters.open(TINY)
    for name, _, points in parameters.sections():
        assert len(points) == setup["sections"][name]["points"]
        assert sha256(points.tobytes()).hexdigest() == setup["sections"][name]["sha256"]
    out = io.BytesIO()
    parameters.write_to(out)
    assert out.getvalue() == TINY.read_bytes()
    assert parameters.size == setup["params_size"] == TINY.stat().st_size


def test_every_point_of_a_good_key_passes_and_is_counted() -> None:
    parameters = Parameters.open(TINY)
    done: list[int] = []
    parameters.check(done.append)
    assert parameters.point_count() == 6 + 3 + 2047 + 1389 + 1053 + 1013 + 1013
    assert 0 < sum(done) <= parameters.point_count()


@pytest.mark.parametrize("section", COUNT_AT)
@pytest.mark.parametrize("count", [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\x00\x10\x00\x00"])
def test_a_wrong_count_is_refused_before_anything_is_read(section: str, count: bytes, tmp_path: Path) -> None:
    with pytest.raises(KeyFileDamaged) as caught:
        Parameters.open(changed(tmp_path, count, COUNT_AT[section]))
    assert caught.value.field in {name for name, _ in SECTIONS} | {"ic", "file"}


@pytest.mark.parametrize("size", [0, 1, 95, 900, 1160, 723863])
def test_a_file_cut_short_is_refused(size: int, tmp_path: Path) -> None:
    path = tmp_path / "short.params"
    path.write_bytes(TINY.read_bytes()[:size])
    with pytest.raises(KeyFileDamaged):
        Parameters.open(path)


def test_a_file_with_more_behind_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.params"
    path.write_bytes(TINY.read_bytes() + b"\0")
    with pytest.raises(KeyFileDamaged, match="1 bytes too many"):
        Parameters.open(path)


@pytest.mark.parametrize(("name", "group"), SECTIONS)
def test_a_bad_point_is_found_and_named(name: str, group: str) -> None:
    points = np.array(getattr(Parameters.open(TINY), name))
    for index, byte, message in ((0, 50, "curve"), (len(points) - 1, 3, "curve")):
        bad = points.copy()
        bad[index, byte] ^= 1
        with pytest.raises(KeyFileDamaged, match=message) as caught:
            check_points(bad, group, name)  # type: ignore[arg-type]
        assert caught.value.field == f"{name}[{index}]"
    points[7] = 0
    with pytest.raises(KeyFileDamaged, match="infinity") as caught:
        check_points(points, group, name)  # type: ignore[arg-type]
    assert caught.value.field == f"{name}[7]"


@pytest.mark.parametrize("flag", [0x80, 0x40, 0x20])
def test_a_flag_bit_is_refused(flag: int) -> None:
    points = np.array(Parameters.open(TINY).h[:3])
    points[1, 0] |= flag
    with pytest.raises(KeyFileDamaged) as caught:
        check_points(points, "G1", "h")
    assert caught.value.field == "h[1]"


def low_order_point() -> bytes:
    """A point of the curve of order 3, so that sums of it vanish as often as they can."""
    r = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
    cofactor = 0x396C8C005555E1568C00AAAB0000AAAB
    for x in range(1, 200):
        try:
            point = G1Point.from_compressed_bytes_unchecked(bytes([0x80]) + x.to_bytes(47, "big"))
        except ValueError:
            continue
        small = times(times(point, r), cofactor // 3)
        if small != G1Point.identity():
            return bytes(small.to_xy_bytes_be())
    raise AssertionError("none found")


def times(point: G1Point, k: int) -> G1Point:
    """Double and add: Scalar would reduce k modulo r."""
    total = G1Point.identity()
    for bit in bin(k)[2:]:
        total = total + total
        if bit == "1":
            total = total + point
    return total


@pytest.mark.parametrize("index", [0, 1000, 2046])
def test_a_point_outside_the_subgroup_is_found_among_many(index: int) -> None:
    """A good point plus one of order 3, the hardest to see in sums, and one less it, so that the pair cancels."""
    points = np.array(Parameters.open(TINY).h)
    small = G1Point.from_xy_bytes_unchecked_be(low_order_point())
    good = G1Point.from_xy_bytes_be(points[index].tobytes())
    points[index] = np.frombuffer((good + small).to_xy_bytes_be(), dtype=np.uint8)
    points[5] = np.frombuffer((G1Point.from_xy_bytes_be(points[5].tobytes()) - small).to_xy_bytes_be(), dtype=np.uint8)
    with pytest.raises(KeyFileDamaged, match="subgroup") as caught:
        check_points(points, "G1", "h")
    assert caught.value.field == f"h[{min(index, 5)}]"


def test_doubling_is_scalar_multiplication_here() -> None:
    generator = G1Point()
    assert times(generator, 12345) == generator * Scalar(12345)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_whatever_the_bytes_a_key_is_read_or_refused_with_a_code(data: st.DataObject) -> None:
    """Cuts, insertions and changes anywhere: never another error, never more memory than the file's."""
    content = bytearray((DATA / "2k" / "tiny.vk").read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 300))] = data.draw(st.binary(max_size=300))
    try:
        key = VerifyingKey.parse(bytes(content))
    except KeyFileDamaged as error:
        assert error.code == "key_damaged" and error.field
    else:
        assert key.to_bytes() == bytes(content)

"""Fr and Fp: bytes in and out, and the laws of arithmetic, against plain integers."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.algebra.fields import FP, FR, Field, NonCanonical
from prover.algebra.kernels import tiles

FIELDS = pytest.mark.parametrize("field", [FR, FP], ids=["Fr", "Fp"])


def edges(field: Field) -> list[int]:
    p, size = field.p, 8 * field.size
    near = [0, 1, 2, p - 1, p - 2, p // 2, p // 2 + 1]
    return (
        near + [1 << b for b in range(0, size - 2, 15) if 1 << b < p] + [(1 << b) - 1 for b in (16, 32, 64, 128, 254)]
    )


@FIELDS
def test_bytes_survive_encoding(field: Field) -> None:
    data = field.bytes_of(edges(field))
    residues = field.encode(data)
    assert residues.dtype == np.float32 and residues.shape == (2 * field.k, len(data))
    assert (field.decode(residues) == data).all()
    assert field.decode_ints(residues) == edges(field)


@FIELDS
@pytest.mark.parametrize("count", [0, 1, 5, tiles().field - 1, tiles().field, tiles().field + 1])
def test_every_length_encodes_and_decodes(field: Field, count: int) -> None:
    data = np.random.default_rng(count).integers(0, 256, (count, field.size), np.uint8)
    data[:, -1] &= 0x0F
    assert (field.decode(field.encode(data, threads=2), threads=2) == data).all()


@FIELDS
def test_unreduced_elements_decode(field: Field) -> None:
    """Representatives far from the least residue, at both ends of the slack."""
    values = [j * field.p + v for j in (-255, -9, -1, 0, 1, 9, 254) for v in (0, 1, field.p - 1)]
    mont = [v * field.M % field.p + j // 3 * field.p for j, v in enumerate(values)]
    assert field.ints_of(field.decode(field.residues(mont))) == [v % field.p for v in values]


@FIELDS
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_arithmetic_is_that_of_integers(field: Field, data: st.DataObject) -> None:
    number = st.one_of(st.sampled_from(edges(field)), st.integers(0, field.p - 1))
    x, y = (data.draw(st.lists(number, min_size=8, max_size=8)) for _ in range(2))
    a, b = field.encode(field.bytes_of(x)), field.encode(field.bytes_of(y))
    pairs = list(zip(x, y, strict=True))
    assert field.ints_of(field.decode(field.mul_arrays(a, b))) == [u * v % field.p for u, v in pairs]
    assert field.ints_of(field.decode(field.add_arrays(a, b))) == [(u + v) % field.p for u, v in pairs]
    assert field.ints_of(field.decode(field.sub_arrays(a, b))) == [(u - v) % field.p for u, v in pairs]
    assert field.equal(a, b).tolist() == [u == v for u, v in pairs]


@FIELDS
def test_long_chains_of_products_stay_exact(field: Field, rng: random.Random) -> None:
    x = [rng.randrange(field.p) for _ in range(16)]
    y, value = field.encode(field.bytes_of(x)), list(x)
    factor = y
    for _ in range(50):
        y = field.mul_arrays(field.add_arrays(y, factor), factor)
        value = [(v + f) * f % field.p for v, f in zip(value, x, strict=True)]
    assert field.ints_of(field.decode(y)) == value


@FIELDS
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000])
def test_powers(field: Field, count: int) -> None:
    expected = [3 * pow(7, i, field.p) % field.p for i in range(count)]
    assert field.ints_of(field.decode(field.powers(7, count, first=3))) == expected


@FIELDS
def test_a_value_that_is_not_below_the_modulus_is_refused_and_named(field: Field) -> None:
    good = [0, field.p - 1]
    bad = [field.p, (1 << (8 * field.size)) - 1]
    rows = [np.frombuffer(v.to_bytes(field.size, "little"), np.uint8) for v in good + bad]
    assert field.canonical(np.stack(rows)).tolist() == [True, True, False, False]
    with pytest.raises(NonCanonical, match=r"witness\[2\]") as error:
        field.check_canonical(np.stack(rows), "witness")
    assert error.value.code == "non_canonical_field_element"
    field.check_canonical(np.stack(rows[:2]), "witness")

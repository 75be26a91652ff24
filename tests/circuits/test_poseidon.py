"""Poseidon on plain integers against published digests and against its own definition."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prover.filecoin.poseidon import GENERATION_TAG, MODULUS, PoseidonInputInvalid, digest, poseidon

#: digest of 0, 1, .., arity - 1 with the tag of trees
PUBLISHED = {
    2: 0x396508D75E76A56B739E0FD902EFE161A6FBA9339D05A69D2E203C369A02E7FF,
    4: 0x58A54B10A9E5848A00DB3C6579229399FB6B4605BF1327EC019814FF6662075D,
    8: 0x2394611DA3A5DE5512010042116770774B682E9D9CC4AED92A9934F56D38A5E6,
    11: 0x0C0FC1B2E5227F286CA537E232EBE87A09F3DCD8CCB08FC1CEE3BBC32B693163,
    16: 0x2D3AE2663381AE8AC1C2FB5A6F871E635B8DBC6D30680A6F1291C74060266D37,
}
elements = st.integers(0, MODULUS - 1)


@pytest.mark.parametrize("arity", PUBLISHED)
def test_published_digests(arity: int) -> None:
    assert digest(range(arity)) == PUBLISHED[arity]
    assert poseidon(arity).plain_hash(range(arity)) == PUBLISHED[arity]


def test_published_binary_tree() -> None:
    node = digest([1, 0])
    assert node == 0x042F94FFBE786BC393C003CC74A24F26EC5907B3DC3094AFB339FF6079800B5E
    assert digest([node, digest([0, 1])]) == 0x1EFFEBB7B26AD9EB30EB6385AE6B74AE77CC72B8CB2B5AD2EFBB8BE3E291E671


def test_the_updates_tag() -> None:
    assert digest([7, 11], GENERATION_TAG) == 0x3FB5E212C1574D88ACFE8D43493529F97B5DD5DAE787BB4A783E87F73794D4E6


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([2, 4, 8, 11]), st.lists(elements, min_size=11, max_size=11), elements)
def test_the_optimised_form_equals_the_definition(arity: int, values: list[int], tag: int) -> None:
    hasher = poseidon(arity)
    assert hasher.digest(values[:arity], tag) == hasher.plain_hash(values[:arity], tag)


@pytest.mark.parametrize("edge", [0, 1, MODULUS - 1])
def test_edges_of_the_field(edge: int) -> None:
    hasher = poseidon(8)
    assert hasher.digest([edge] * 8) == hasher.plain_hash([edge] * 8)


def test_a_trace_ends_in_the_digest_and_is_canonical() -> None:
    trace = poseidon(8).trace(range(8))
    assert len(trace) == 505
    assert trace[-1] == PUBLISHED[8]
    assert all(0 <= value < MODULUS for value in trace)


@pytest.mark.parametrize("values", [[MODULUS, 0], [0, -1], [1 << 256, 0]])
def test_values_outside_the_field_are_refused(values: list[int]) -> None:
    with pytest.raises(PoseidonInputInvalid, match="not below the field's modulus"):
        digest(values)


def test_a_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(PoseidonInputInvalid, match="7 inputs for arity 8"):
        poseidon(8).digest(range(7))
    with pytest.raises(PoseidonInputInvalid, match="no Poseidon of arity 0"):
        digest([])

"""Sector shapes, circuit parameters, key file names and registered proofs against the published tables."""

from __future__ import annotations

from math import prod

import pytest

from prover.filecoin import shapes
from prover.filecoin.errors import RegisteredProofMismatch, UnsupportedProof, UnsupportedSectorSize
from prover.filecoin.shapes import ApiVersion, ProofKind

from .samples import vectors

WINDOW, WINNING = ProofKind.WINDOW_POST, ProofKind.WINNING_POST
NAMES = {name: entry for name, entry in vectors("cache_names.json").items() if isinstance(entry, dict)}


@pytest.mark.parametrize("name", NAMES)
def test_cache_names_are_the_published_ones(name: str) -> None:
    size = shapes.parse_sector_size(name).size
    window, winning = shapes.post_shape(WINDOW, size), shapes.post_shape(WINNING, size)
    assert window.cache_name == NAMES[name]["window"]
    assert winning.cache_name == NAMES[name]["winning"]
    assert window.sectors == NAMES[name]["window_sector_count"]
    assert window.key_name == f"v28-{NAMES[name]['window']}"
    porep, update = shapes.porep_shape(size), shapes.update_shape(size)
    assert (porep.cache_name, porep.partitions) == (NAMES[name]["porep"], NAMES[name]["porep_partitions"])
    assert (update.cache_name, update.partitions) == (NAMES[name]["update"], NAMES[name]["update_partitions"])
    assert -(-NAMES[name]["porep_min_challenges"] // porep.partitions) == porep.challenges


@pytest.mark.parametrize("sector", shapes.SECTORS.values(), ids=lambda sector: sector.name)
def test_the_levels_of_a_tree_hold_all_nodes(sector: shapes.SectorShape) -> None:
    assert prod(sector.arities) == sector.nodes
    assert sector.arities.count(8) >= 2
    assert shapes.parse_sector_size(sector.name) is sector
    last = sector.digits(sector.nodes - 1)
    assert last == tuple(arity - 1 for arity in sector.arities)


def test_digits_are_those_of_the_leaf_number_with_the_lowest_first() -> None:
    sector = shapes.parse_sector_size("32KiB")  # 8-8-8-2 from the leaf up
    assert sector.arities == (8, 8, 8, 2)
    assert sector.digits(1 + 8 * (2 + 8 * (3 + 8 * 1))) == (1, 2, 3, 1)


@pytest.mark.parametrize(
    ("kind", "size", "sectors", "challenges", "inputs"),
    [(WINDOW, 2048, 2, 10, 23), (WINNING, 2048, 66, 1, 133), (WINDOW, 32 << 30, 2349, 10, 1 + 2349 * 11)],
)
def test_circuit_parameters(kind: ProofKind, size: int, sectors: int, challenges: int, inputs: int) -> None:
    shape = shapes.post_shape(kind, size)
    assert (shape.sectors, shape.challenges, shape.num_inputs) == (sectors, challenges, inputs)


@pytest.mark.parametrize(
    ("size", "bits", "per_digest", "digests", "h", "position"),
    [
        ("2KiB", (6, 0, 3), 42, 1, 1, 0),
        ("32KiB", (10, 1, 7), 28, 1, 1, 0),
        ("8MiB", (18, 2, 7), 15, 1, 10, 3),
        ("512MiB", (24, 4, 7), 12, 8, 10, 3),
        ("32GiB", (30, 4, 7), 9, 10, 10, 3),
        ("64GiB", (31, 4, 7), 9, 10, 10, 3),
    ],
)
def test_how_the_challenges_of_an_update_are_cut(
    size: str, bits: tuple[int, int, int], per_digest: int, digests: int, h: int, position: int
) -> None:
    shape = shapes.update_shape(shapes.parse_sector_size(size).size)
    assert (shape.node_bits, shape.partition_bits, shape.apex_bits) == bits
    assert (shape.challenges_per_digest, shape.digests) == (per_digest, digests)
    assert (shape.h, shape.h_position) == (h, position)
    last = shape.partitions - 1
    assert shape.partition_and_h(last) == last + (1 << position) * shape.partitions


@pytest.mark.parametrize(
    ("size", "layers", "partitions", "challenges", "inputs"), [("2KiB", 2, 1, 2, 40), ("32GiB", 11, 10, 18, 328)]
)
def test_the_parameters_of_porep(size: str, layers: int, partitions: int, challenges: int, inputs: int) -> None:
    shape = shapes.porep_shape(shapes.parse_sector_size(size).size)
    assert (shape.layers, shape.partitions, shape.challenges) == (layers, partitions, challenges)
    assert shape.num_inputs == inputs


@pytest.mark.parametrize(("kind", "size"), [(ProofKind.POREP, 8 << 10), (ProofKind.SNAP, 1 << 30)])
def test_sizes_without_a_circuit_of_the_kind(kind: ProofKind, size: int) -> None:
    with pytest.raises(UnsupportedSectorSize, match=f"no {kind} circuit for"):
        shapes.circuit_shape(kind, size)


@pytest.mark.parametrize(
    ("kind", "number", "size", "version"),
    [
        (WINNING, 0, "2KiB", ApiVersion.V1_0_0),
        (WINNING, 4, "64GiB", ApiVersion.V1_0_0),
        (WINDOW, 5, "2KiB", ApiVersion.V1_0_0),
        (WINDOW, 8, "32GiB", ApiVersion.V1_0_0),
        (WINDOW, 10, "2KiB", ApiVersion.V1_2_0),
        (WINDOW, 11, "8MiB", ApiVersion.V1_2_0),
        (WINDOW, 12, "512MiB", ApiVersion.V1_2_0),
        (WINDOW, 0, "32KiB", ApiVersion.V1_2_0),
        (WINNING, 0, "1GiB", ApiVersion.V1_0_0),
    ],
)
def test_registered_proofs_give_the_api_version(kind: ProofKind, number: int, size: str, version: ApiVersion) -> None:
    assert shapes.post_api_version(kind, shapes.parse_sector_size(size).size, number) is version


@pytest.mark.parametrize(
    ("kind", "number", "size"),
    [
        (WINDOW, 0, 2048),
        (WINDOW, 11, 2048),
        (WINDOW, 15, 2048),
        (WINNING, 10, 2048),
        (WINNING, 0, 8 << 20),
        (WINDOW, 10, 4096),
    ],
)
def test_a_registered_proof_of_another_kind_or_size_is_refused(kind: ProofKind, number: int, size: int) -> None:
    with pytest.raises(RegisteredProofMismatch, match=r"^registered_proof: .*not \d+"):
        shapes.post_api_version(kind, size, number)


@pytest.mark.parametrize("size", [0, 1, 2047, 8192, 1 << 40])
def test_a_size_without_circuit_is_refused(size: int) -> None:
    with pytest.raises(UnsupportedSectorSize, match="2KiB, 4KiB"):
        shapes.post_shape(WINDOW, size)


@pytest.mark.parametrize("kind", [ProofKind.POREP, ProofKind.SNAP])
def test_other_kinds_have_no_post_circuit(kind: ProofKind) -> None:
    with pytest.raises(UnsupportedProof, match="no proof of spacetime"):
        shapes.post_shape(kind, 2048)


@pytest.mark.parametrize("text", ["2KiB", "2 kib", "2048"])
def test_sizes_are_read_as_people_write_them(text: str) -> None:
    assert shapes.parse_sector_size(text).size == 2048


def test_a_size_that_is_none_is_quoted_in_short() -> None:
    with pytest.raises(UnsupportedSectorSize) as caught:
        shapes.parse_sector_size("x" * 10_000)
    assert len(str(caught.value)) < 300


def test_seal_proofs_give_their_api_version() -> None:
    assert [shapes.seal_api_version(number) for number in (4, 5, 10, 19)] == ["1.0.0", "1.1.0", "1.2.0", "1.2.0"]
    with pytest.raises(ValueError, match=r"0\.\.19"):
        shapes.seal_api_version(20)

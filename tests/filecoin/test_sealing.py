"""Sealed sectors against the labels, replicas and commitments of the Rust stack."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import pytest

from prover.filecoin import fr, sample, sealing, shapes

from .samples import vectors

SMALLEST = shapes.SECTORS[2048]
PUBLIC = vectors("2k/public.json")


@pytest.mark.parametrize("published", PUBLIC["sectors"], ids=lambda sector: f"sector{sector['sector_id']}")
def test_a_sector_is_sealed_as_the_rust_stack_does(published: dict[str, Any]) -> None:
    sealed = sample.fresh_sector("2k-a", published["sector_id"])
    assert sealed.comm_d.hex() == published["comm_d"]
    assert sealed.replica_id.hex() == published["replica_id"]
    assert [sha256(b"".join(layer)).hexdigest() for layer in sealed.labels] == published["labels_sha256"]
    for layer, name in enumerate(("layer1", "layer2")):
        assert [label.hex() for label in sealed.labels[layer][:4]] == published["labels_first_nodes"][name]
    assert sha256(sealed.replica).hexdigest() == published["replica_sha256"]
    for name in ("comm_c", "comm_r_last", "comm_r"):
        assert fr.to_bytes(getattr(sealed, name)).hex() == published[name]


@pytest.mark.parametrize("number", [1, 2])
def test_padded_data(number: int) -> None:
    padded = sealing.pad(sample.stream(f"2k-a data {number}", 2032))
    assert sha256(padded).hexdigest() == PUBLIC["sectors"][number - 1]["data_padded_sha256"]


def test_padding_keeps_every_bit_and_clears_two_of_256() -> None:
    padded = sealing.pad(b"\xff" * 127)
    assert len(padded) == 128
    assert [padded[at] for at in (31, 63, 95, 127)] == [0x3F] * 4
    assert sum(byte.bit_count() for byte in padded) == 127 * 8
    with pytest.raises(ValueError, match="multiple of 127"):
        sealing.pad(bytes(128))


@pytest.mark.parametrize(
    ("levels", "comm_d"),
    [
        (6, "fc7e928296e516faade986b28f92d44a4f24b935485223376a799027bc18f833"),
        (30, "077e5fde35c50a9303a55009e3498a4ebedff39c42b710b730d8ec7ac7afa63e"),
        (31, "e64005a6bfe3777953b8ad6ef93f0fca1049b2041654f2a411f7702799cece02"),
    ],
)
def test_the_data_commitment_of_no_pieces(levels: int, comm_d: str) -> None:
    node = bytes(32)
    for _ in range(levels):
        node = fr.to_bytes(sealing.build_data_tree([node, node]).root)
    assert node.hex() == comm_d


@pytest.mark.parametrize("size", ["2KiB", "4KiB", "32KiB"])
def test_paths_of_every_tree_shape_have_its_digits(size: str) -> None:
    sector = shapes.parse_sector_size(size)
    tree = sealing.build_tree(sector, range(sector.nodes))
    for leaf in (0, 1, sector.nodes // 3, sector.nodes - 1):
        proof = tree.prove(leaf)
        assert proof.leaf == leaf
        assert proof.root == tree.root
        assert tuple(element.index for element in proof.path) == sector.digits(leaf)
        assert [len(element.siblings) + 1 for element in proof.path] == list(sector.arities)


def test_data_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="a sector of 2KiB holds 2048"):
        sealing.seal(SMALLEST, bytes(2047), sector_id=1, miner_id=1, ticket=bytes(32), registered_seal_proof=5)

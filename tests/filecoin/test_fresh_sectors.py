"""PoRep and SnapDeals over fresh sectors: the published requests again, every tree shape, and consistent lies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from prover.filecoin import c1, c1_check, labels, partitions, sample, sealing, update, updating
from prover.filecoin.errors import EncodingMismatch, LabelMismatch, UnsupportedSectorSize
from prover.filecoin.fr import MODULUS
from prover.filecoin.request import PorepRequest, parse_json
from prover.filecoin.shapes import PorepShape, SectorShape, parse_sector_size, porep_shape

from .samples import POREP, SNAP, parsed

PUBLISHED = parsed(POREP)


def porep_request(tag: str, shape: PorepShape, seal_proof: int = 5) -> PorepRequest:
    """A request over a fresh sector of any shape, also of one that has no registered proof of its own."""
    sealed = sample.fresh_sector(tag, 1, shape.sector, seal_proof)
    inner = c1.write_inner(sample.c1_output(tag, sealed, shape), shape, seal_proof)
    wrapped = c1.Wrapped(1, shape.sector.size, inner)
    return replace(PUBLISHED, shape=shape, c1=wrapped, registered_proof=seal_proof)


def sector(size: str) -> SectorShape:
    return parse_sector_size(size)


def test_the_published_requests_are_made_again_from_their_tag() -> None:
    assert parse_json(sample.porep_c2("2k-a")) == PUBLISHED
    assert parse_json(sample.snap_update("2k-a")) == parsed(SNAP)


@pytest.mark.parametrize("size", ["4KiB", "16KiB", "32KiB"])
def test_porep_of_every_tree_shape(size: str) -> None:
    shape = porep_shape(sector(size).size)
    (partition,) = c1_check.partitions(porep_request("fresh", shape))
    assert len(partition.public_inputs) + 1 == shape.num_inputs
    assert [len(challenge.replica.path) for challenge in partition.instance.challenges] == [
        len(shape.sector.arities)
    ] * 2


@pytest.mark.parametrize("seal_proof", [0, 10])
def test_porep_of_the_other_api_versions(seal_proof: int) -> None:
    request = porep_request("fresh", porep_shape(2048), seal_proof)
    (partition,) = c1_check.partitions(request)
    assert c1_check.public_inputs(request) == (partition.public_inputs,)
    assert partition.public_inputs != c1_check.public_inputs(porep_request("fresh", porep_shape(2048)))[0]


def test_porep_of_several_partitions() -> None:
    shape = replace(porep_shape(2048), partitions=3)
    request = porep_request("several", shape)
    found = c1_check.partitions(request)
    assert [partition.index for partition in found] == [0, 1, 2]
    assert request.partition_count == 3
    assert c1_check.public_inputs(request) == tuple(partition.public_inputs for partition in found)
    nodes = [challenge.node for partition in found for challenge in partition.instance.challenges]
    alone = porep_request("several", replace(shape, partitions=1, challenges=6))
    assert [challenge.node for challenge in c1_check.partitions(alone)[0].instance.challenges] == nodes
    assert shape.key_name == porep_shape(2048).key_name


@pytest.mark.parametrize("size", ["2KiB", "4KiB", "8KiB", "16KiB", "32KiB"])
def test_updates_of_every_tree_shape(size: str) -> None:
    request = parse_json(sample.snap_update("fresh", sector=sector(size)))
    found = partitions.partitions(request)
    assert len(found) == request.partition_count == request.shape.partitions
    assert partitions.public_inputs(request) == tuple(partition.public_inputs for partition in found)
    assert len({partition.public_inputs[0] for partition in found}) == len(found)
    for partition in found:
        assert len(partition.instance.partition_path) == request.shape.partition_bits
        assert {c.node >> request.shape.challenge_bits for c in partition.instance.challenges} == {partition.index}


def test_another_tag_gives_another_request() -> None:
    assert parse_json(sample.snap_update("a")).digest != parse_json(sample.snap_update("b")).digest
    assert parse_json(sample.porep_c2("a")).digest != parse_json(sample.porep_c2("b")).digest


@pytest.mark.parametrize("size", ["4KiB", "8KiB"])
def test_there_is_no_porep_sample_without_a_seal_proof(size: str) -> None:
    with pytest.raises(UnsupportedSectorSize):
        sample.porep_c2("a", sector=sector(size))


class TestConsistentLies:
    """Trees, columns and commitments are made over a false value: all of them agree, and the value is still refused."""

    @pytest.mark.parametrize("layer", [1, 2])
    def test_a_label_that_is_no_hash(self, layer: int, monkeypatch: pytest.MonkeyPatch) -> None:
        def false_label(identity: bytes, at_layer: int, node: int, parents: Any) -> bytes:
            true = labels.label(identity, at_layer, node, parents)
            return bytes([true[0] ^ 1]) + true[1:] if (at_layer, node) == (layer, 12) else true

        monkeypatch.setattr(sealing, "label", false_label)
        request = parse_json(sample.porep_c2("2k-a"))
        with pytest.raises(LabelMismatch, match="is not their hash") as caught:
            c1_check.partitions(request)
        assert str(caught.value.field).endswith(f"[1].labeling_proofs[{layer - 1}]")

    def test_a_replica_that_is_not_the_label_plus_the_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sealing, "encode", lambda key, data: (key + data + 1) % MODULUS)
        request = parse_json(sample.porep_c2("2k-a"))
        with pytest.raises(EncodingMismatch) as caught:
            c1_check.partitions(request)
        assert str(caught.value.field).endswith("[0].comm_r_last_proof.leaf")

    def test_an_update_that_does_not_encode_its_data(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(updating, "encode", lambda old, data, rho: update.encode(old, data, rho + 1))
        request = parse_json(sample.snap_update("2k-a"))
        with pytest.raises(EncodingMismatch) as caught:
            update.partitions(request)
        assert caught.value.field == "vanilla_proofs[0].challenge_proofs[0].proof_r_new.leaf"


def test_data_of_another_size_is_refused() -> None:
    old = sample.fresh_sector("2k-a", 1)
    with pytest.raises(ValueError, match="a sector of 2KiB holds 2048"):
        updating.update(old, parsed(SNAP).shape, bytes(2047))

"""Challenges, public inputs and partitions against the Rust stack; every false vanilla proof is refused."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from prover.filecoin import post, sample
from prover.filecoin.errors import CommRMismatch, DuplicateSector, MerklePathMismatch, SectorOrder, WrongChallenge
from prover.filecoin.request import ProofRequest, parse_json
from prover.filecoin.shapes import SECTORS, ProofKind

from .samples import DEADLINE, WINDOW, WINNING, changed, parsed, patched, vectors

PUBLIC = vectors("2k/public.json")
FIRST = 8 + 32 + 8 + 8  # where the first inclusion proof begins


def integers(hexadecimal: list[str]) -> tuple[int, ...]:
    return tuple(int(text, 16) for text in hexadecimal)


def spoiled(name: str, at: int, new: bytes, which: int = 0) -> ProofRequest:
    """A published request, bytes of one of its vanilla proofs replaced."""
    proofs = list(parsed(name).vanilla_proofs)
    proofs[which] = patched(proofs[which], at, new)
    return changed(name, vanilla_proofs=proofs)


@pytest.mark.parametrize(("name", "vector"), [(WINDOW, "window"), (WINNING, "winning")])
class TestPublished:
    def test_challenges(self, name: str, vector: str) -> None:
        found = parsed(name)
        sectors = post.read_sectors(found)
        assert [list(post.challenges(found, i, s.sector_id)) for i, s in enumerate(sectors)] == PUBLIC[vector][
            "challenges"
        ]
        assert found.randomness.hex() == PUBLIC[vector]["randomness"]
        assert [s.comm_r.to_bytes(32, "little").hex() for s in sectors] == PUBLIC[vector]["comm_rs"]

    def test_public_inputs_are_those_of_the_circuit(self, name: str, vector: str) -> None:
        (partition,) = post.partitions(parsed(name))
        inputs = integers(vectors(f"2k/{vector}.r1cs.json")["inputs"])
        assert (1, *partition.public_inputs) == inputs
        assert partition.shape.num_inputs == len(inputs)
        assert post.public_inputs(parsed(name)) == (partition.public_inputs,)

    def test_the_instance_fits_the_circuit(self, name: str, vector: str) -> None:
        (partition,) = post.partitions(parsed(name))
        sectors = partition.instance.sectors
        assert len(sectors) == partition.shape.sectors
        assert {len(sector.paths) for sector in sectors} == {partition.shape.challenges}
        assert {path.root for sector in sectors for path in sector.paths} == {s.comm_r_last for s in sectors}


def test_a_deadline_gives_its_partitions_in_order() -> None:
    found = post.partitions(parsed(DEADLINE))
    published = vectors("deadline/deadline.json")
    assert [partition.index for partition in found] == list(range(13))
    assert [p.public_inputs for p in found] == [integers(p["public_inputs"]) for p in published["partitions"]]
    assert found[-1].instance.sectors[0] == found[-1].instance.sectors[1]  # 25 sectors: the last is repeated


def test_partitions_count_from_the_partition_index() -> None:
    found = changed(DEADLINE, partition_index=7)
    assert [partition.index for partition in post.partitions(found)] == list(range(7, 20))


class TestApiVersionBefore120:
    """Registered proof 5: the challenges depend on the place of the sector in the deadline."""

    def test_challenges(self) -> None:
        found = changed(WINDOW, registered_proof=5)
        assert [list(post.challenges(found, i, i + 1)) for i in (0, 1)] == PUBLIC["window"][
            "challenges_if_api_version_1_0_0_or_1_1_0"
        ]

    def test_the_partition_index_moves_them(self) -> None:
        in_first = changed(DEADLINE, registered_proof=5)
        alone = changed(WINDOW, registered_proof=5, partition_index=3, randomness=in_first.randomness)
        assert post.challenges(alone, 1, 42) == post.challenges(in_first, 7, 42)
        assert post.challenges(alone, 1, 42) != post.challenges(in_first, 1, 42)

    def test_proofs_made_for_the_newer_version_are_refused(self) -> None:
        with pytest.raises(WrongChallenge, match=r"^vanilla_proofs\[1\]\.sectors\[0\]\.inclusion_proofs\[0\]: "):
            post.partitions(changed(WINDOW, registered_proof=5))


@pytest.mark.parametrize(("count", "picked"), [(1, "sector_challenge_of_1"), (5, "sector_challenge_of_5")])
def test_winning_sector(count: int, picked: str) -> None:
    randomness = bytes.fromhex(PUBLIC["winning"]["randomness"])
    assert [post.winning_sector(1000, randomness, count)] == PUBLIC["winning"][picked]


@pytest.mark.parametrize(
    ("miner", "start"), [(1000, "e807"), (0, "00"), (127, "7f"), (128, "8001"), (1 << 62, "80" * 8 + "40")]
)
def test_prover_id(miner: int, start: str) -> None:
    assert post.prover_id(miner).hex() == start.ljust(64, "0")


class TestFalseProofs:
    @pytest.mark.parametrize("name", [WINDOW, WINNING])
    def test_for_another_randomness(self, name: str) -> None:
        with pytest.raises(WrongChallenge, match="which the randomness challenges"):
            post.partitions(changed(name, randomness=bytes(31) + b"\1"))

    def test_for_another_sector_id(self) -> None:
        with pytest.raises(WrongChallenge, match=r"^vanilla_proofs\[1\]"):
            post.partitions(spoiled(WINDOW, 0, struct.pack("<Q", 77), which=1))

    @pytest.mark.parametrize("at", [8, 5680 - 64])
    def test_comm_r_that_is_not_the_hash(self, at: int) -> None:
        with pytest.raises(CommRMismatch, match=r"^vanilla_proofs\[0\]\.comm_r: "):
            post.partitions(spoiled(WINDOW, at, b"\1" * 8))

    @pytest.mark.parametrize("at", [36, 84, 84 + 6 * 32, 76 + 240 + 8])
    def test_a_leaf_or_sibling_that_does_not_lead_to_the_root(self, at: int) -> None:
        with pytest.raises(MerklePathMismatch, match=r"inclusion_proofs\[3\]: The Merkle path does not lead"):
            post.partitions(spoiled(WINDOW, FIRST + 3 * 556 + at, b"\1" * 8))

    def test_a_root_that_is_not_comm_r_last(self) -> None:
        with pytest.raises(MerklePathMismatch, match=r"inclusion_proofs\[9\]\.root: .*not comm_r_last"):
            post.partitions(spoiled(WINDOW, FIRST + 9 * 556 + 4, b"\1" * 8))

    def test_another_index(self) -> None:
        with pytest.raises(WrongChallenge, match="not that of leaf 51"):
            post.partitions(spoiled(WINDOW, FIRST + 84 + 224, struct.pack("<Q", 4)))

    def test_the_paths_of_another_sector(self) -> None:
        first, second = parsed(WINDOW).vanilla_proofs
        with pytest.raises((WrongChallenge, CommRMismatch)):
            post.partitions(changed(WINDOW, vanilla_proofs=[first[:40] + second[40:]]))


class TestOrder:
    PROOFS = parsed(WINDOW).vanilla_proofs

    @pytest.mark.parametrize("use", [post.partitions, post.public_inputs, post.read_sectors])
    def test_descending_sectors_are_refused(self, use: Any) -> None:
        found = changed(WINDOW, vanilla_proofs=list(reversed(self.PROOFS)))
        with pytest.raises(SectorOrder, match=r"^vanilla_proofs\[1\]\.sector_id: sector 1 after sector 2"):
            use(found)

    def test_a_sector_twice_is_refused(self) -> None:
        found = changed(WINDOW, vanilla_proofs=[self.PROOFS[0], self.PROOFS[1], self.PROOFS[1]])
        with pytest.raises(DuplicateSector, match=r"^vanilla_proofs\[2\]\.sector_id: sector 2 occurs twice"):
            post.partitions(found)

    def test_one_sector_alone_fills_the_partition(self) -> None:
        (partition,) = post.partitions(changed(WINDOW, vanilla_proofs=[self.PROOFS[1]]))
        assert partition.public_inputs[:11] == partition.public_inputs[11:]


class TestFreshSectors:
    def test_the_published_requests_are_made_again_from_their_tags(self) -> None:
        assert parse_json(sample.window_post("2k-a")) == parsed(WINDOW)
        assert parse_json(sample.winning_post("2k-a")) == parsed(WINNING)

    def test_a_whole_deadline_too(self) -> None:
        assert parse_json(sample.window_post("deadline", range(101, 126))) == parsed(DEADLINE)

    @pytest.mark.parametrize("size", ["2KiB", "4KiB", "16KiB", "32KiB"])
    @pytest.mark.parametrize("kind", [ProofKind.WINDOW_POST, ProofKind.WINNING_POST])
    def test_every_tree_shape_checks_out(self, kind: ProofKind, size: str) -> None:
        sector = next(sector for sector in SECTORS.values() if sector.name == size)
        make = sample.window_post if kind is ProofKind.WINDOW_POST else sample.winning_post
        found = parse_json(make("fresh", sector=sector))
        (partition,) = post.partitions(found)
        assert found.registered_proof == (
            {ProofKind.WINDOW_POST: 10, ProofKind.WINNING_POST: 0}[kind] if size == "2KiB" else None
        )
        assert partition.shape.sector is sector
        assert (partition.public_inputs,) == post.public_inputs(found)

    def test_another_tag_gives_other_sectors(self) -> None:
        first, second = parse_json(sample.window_post("a")), parse_json(sample.window_post("b"))
        assert first.digest != second.digest
        assert first == parse_json(sample.window_post("a"))

"""Vanilla proofs in bincode: read, written, and refused when they are anything but what the shape prescribes."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import count, islice
from random import Random

import pytest

from prover.errors import InvalidInput
from prover.filecoin.errors import MalformedVanillaProof, NonCanonicalElement, TrailingBytes, TruncatedVanillaProof
from prover.filecoin.fr import MODULUS
from prover.filecoin.shapes import PostShape, ProofKind, circuit_shapes, post_shape
from prover.filecoin.vanilla import (
    MerkleProof,
    PathElement,
    SectorProof,
    read_sector_head,
    read_sector_proof,
    vanilla_size,
    write_sector_proof,
)

from .samples import DATA, patched

WINDOW, WINNING = post_shape(ProofKind.WINDOW_POST, 2048), post_shape(ProofKind.WINNING_POST, 2048)
PROOF = (DATA / "2k/window_vanilla_0.bin").read_bytes()
PLACE = "vanilla_proofs[0]"
INCLUSION = 556  # bytes of an inclusion proof of 2 KiB
FIRST = 8 + 32 + 8 + 8  # where the first one begins


@pytest.mark.parametrize(
    ("name", "shape"), [("window_vanilla_0", WINDOW), ("window_vanilla_1", WINDOW), ("winning_vanilla_0", WINNING)]
)
def test_published_proofs_are_read_and_written(name: str, shape: PostShape) -> None:
    data = (DATA / f"2k/{name}.bin").read_bytes()
    proof = read_sector_proof(data, shape, PLACE)
    assert proof.sector_id == int(name == "window_vanilla_1") + 1
    assert len(proof.inclusion_proofs) == shape.paths_per_vanilla_proof
    assert write_sector_proof(proof, shape.sector) == data
    assert vanilla_size(shape) == len(data)
    assert read_sector_head(data, PLACE) == (proof.sector_id, proof.comm_r)


POST_SHAPES = [shape for shape in circuit_shapes() if isinstance(shape, PostShape)]


@pytest.mark.parametrize("shape", POST_SHAPES, ids=lambda shape: shape.label)
def test_proofs_of_every_shape_survive_a_round_trip(shape: PostShape) -> None:
    random = Random(shape.label)
    elements = (random.randrange(MODULUS) for _ in count())

    def path() -> MerkleProof:
        levels = [
            PathElement(tuple(islice(elements, arity - 1)), random.randrange(arity)) for arity in shape.sector.arities
        ]
        return MerkleProof(next(elements), next(elements), tuple(levels))

    paths = tuple(path() for _ in range(shape.paths_per_vanilla_proof))
    proof = SectorProof(1 << 40, next(elements), next(elements), next(elements), paths)
    data = write_sector_proof(proof, shape.sector)
    assert len(data) == vanilla_size(shape)
    assert data[FIRST] == bool(shape.sector.sub) + bool(shape.sector.top)  # the variant of the first path
    assert read_sector_proof(data, shape, PLACE) == proof


@pytest.mark.parametrize("size", [*range(0, 700, 7), len(PROOF) - 1])
def test_a_truncated_proof_is_refused(size: int) -> None:
    with pytest.raises(TruncatedVanillaProof, match=r"^vanilla_proofs\[0\].*bytes needed"):
        read_sector_proof(PROOF[:size], WINDOW, PLACE)


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(TrailingBytes, match="3 bytes follow the 5680 bytes"):
        read_sector_proof(PROOF + b"abc", WINDOW, PLACE)


@pytest.mark.parametrize("declared", [0, 9, 11, 66, 1 << 40, (1 << 64) - 1])
def test_a_declared_length_that_the_shape_forbids_takes_no_memory(declared: int) -> None:
    data = patched(PROOF, FIRST - 8, struct.pack("<Q", declared))
    tracemalloc.start()
    with pytest.raises(MalformedVanillaProof, match=rf"inclusion_proofs: {declared} elements declared, 10 prescribed"):
        read_sector_proof(data, WINDOW, PLACE)
    assert tracemalloc.get_traced_memory()[1] < 100_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("at", "new", "text"),
    [
        (40, struct.pack("<Q", 2), r"sectors: 2 elements declared, 1 prescribed"),
        (FIRST, struct.pack("<I", 1), r"inclusion_proofs\[0\]: variant 1 found, 0 prescribed"),
        (FIRST + 68, struct.pack("<Q", 3), r"inclusion_proofs\[0\]\.path: 3 elements declared, 2 prescribed"),
        (FIRST + 76, struct.pack("<Q", 8), r"inclusion_proofs\[0\]\.path\[0\]\.hashes: 8 elements declared, 7"),
        (FIRST + 84 + 224, struct.pack("<Q", 8), r"path\[0\]\.index: index 8 in a tree of arity 8"),
        (FIRST + 84 + 224, struct.pack("<Q", 1 << 63), r"path\[0\]\.index: index 9223372036854775808"),
    ],
)
def test_another_form_is_refused(at: int, new: bytes, text: str) -> None:
    with pytest.raises(MalformedVanillaProof, match=text):
        read_sector_proof(patched(PROOF, at, new), WINDOW, PLACE)


@pytest.mark.parametrize(
    ("at", "field"),
    [
        (8, "comm_r"),
        (FIRST + 4, "sectors[0].inclusion_proofs[0].root"),
        (FIRST + 36, "sectors[0].inclusion_proofs[0].leaf"),
        (FIRST + 84 + 64, "sectors[0].inclusion_proofs[0].path[0].hashes[2]"),
        (FIRST + 7 * INCLUSION + 76 + 240 + 8 + 6 * 32, "sectors[0].inclusion_proofs[7].path[1].hashes[6]"),
        (len(PROOF) - 64, "sectors[0].comm_c"),
        (len(PROOF) - 32, "sectors[0].comm_r_last"),
    ],
)
@pytest.mark.parametrize("value", [MODULUS, (1 << 256) - 1])
def test_a_non_canonical_element_is_named_by_its_path(at: int, field: str, value: int) -> None:
    data = patched(PROOF, at, value.to_bytes(32, "little"))
    with pytest.raises(NonCanonicalElement) as caught:
        read_sector_proof(data, WINDOW, PLACE)
    assert caught.value.field == f"{PLACE}.{field}"


def test_the_largest_element_is_canonical() -> None:
    data = patched(PROOF, 8, (MODULUS - 1).to_bytes(32, "little"))
    assert read_sector_proof(data, WINDOW, PLACE).comm_r == MODULUS - 1


def test_every_error_is_bad_input() -> None:
    for error in (MalformedVanillaProof, NonCanonicalElement, TrailingBytes, TruncatedVanillaProof):
        assert issubclass(error, InvalidInput)
        assert not error.retryable

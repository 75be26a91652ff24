"""Merkle paths as every vanilla proof holds them, and vanilla PoSt proofs: FallbackPoStSectorProof in bincode.

The shape of the circuit fixes every length.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from . import fr
from .errors import MalformedVanillaProof
from .shapes import PostShape, SectorShape
from .source import Bincode, Source

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
VARIANTS = ("Single", "Sub", "Top")
PARTS = ("base_proof", "sub_proof", "top_proof")
PathParts: TypeAlias = tuple[tuple[int, ...], ...]  # the arity of each level, by the tree that the level belongs to


@dataclass(frozen=True, slots=True)
class PathElement:
    """One level of a Merkle path: the other children in order, and where among the children the path passes."""

    siblings: tuple[int, ...]
    index: int


@dataclass(frozen=True, slots=True)
class MerkleProof:
    """A Merkle path from a leaf to the root; `path` goes from the leaf up. Field elements are canonical integers."""

    root: int
    leaf: int
    path: tuple[PathElement, ...]


@dataclass(frozen=True, slots=True)
class SectorProof:
    """A FallbackPoStSectorProof: the vanilla proof of one sector. Field elements are canonical integers."""

    sector_id: int
    comm_r: int
    comm_c: int
    comm_r_last: int
    inclusion_proofs: tuple[MerkleProof, ...]


def read_sector_proof(data: bytes, shape: PostShape, field: str) -> SectorProof:
    """The vanilla proof in `data`. Every error names its place below `field`, such as ``vanilla_proofs[3]``.

    Raises TruncatedVanillaProof, TrailingBytes, MalformedVanillaProof, NonCanonicalElement.
    """
    source = Bincode(data, field)
    sector_id = source.part("sector_id").number(64)
    comm_r = source.part("comm_r").element()
    (entry,) = source.part("sectors").items(1)
    paths = path_parts(shape.sector)
    inclusions = entry.part("inclusion_proofs").items(shape.paths_per_vanilla_proof)
    proofs = tuple(read_merkle_proof(inclusion, paths) for inclusion in inclusions)
    comm_c = entry.part("comm_c").element()
    comm_r_last = entry.part("comm_r_last").element()
    source.end()
    return SectorProof(sector_id, comm_r, comm_c, comm_r_last, proofs)


def read_sector_head(data: bytes, field: str) -> tuple[int, int]:
    """The sector id and comm_r with which the vanilla proof in `data` begins."""
    source = Bincode(data, field)
    return source.part("sector_id").number(64), source.part("comm_r").element()


def write_sector_proof(proof: SectorProof, sector: SectorShape) -> bytes:
    """Inverse of `read_sector_proof`."""
    parts = [
        _U64.pack(proof.sector_id),
        fr.to_bytes(proof.comm_r),
        _U64.pack(1),
        _U64.pack(len(proof.inclusion_proofs)),
    ]
    paths = path_parts(sector)
    parts += [write_merkle_proof(inclusion, paths) for inclusion in proof.inclusion_proofs]
    return b"".join([*parts, fr.to_bytes(proof.comm_c), fr.to_bytes(proof.comm_r_last)])


def vanilla_size(shape: PostShape) -> int:
    """The number of bytes of a vanilla proof for this circuit."""
    return 56 + shape.paths_per_vanilla_proof * merkle_proof_size(path_parts(shape.sector)) + 64


def path_parts(sector: SectorShape) -> PathParts:
    """The arities of the levels of a Poseidon path: of the base tree, then, where there are such, of sub and top."""
    upper = tuple((arity,) for arity in (sector.sub, sector.top) if arity)
    return (sector.arities[: len(sector.arities) - len(upper)], *upper)


def binary_parts(levels: int) -> PathParts:
    """The same of a path in a binary tree."""
    return ((2,) * levels,)


def read_merkle_proof(source: Source, parts: PathParts) -> MerkleProof:
    """A MerkleProof of storage-proofs-core: an enum by the number of its parts.

    Single {root, leaf, path}, Sub {base_proof, sub_proof, root, leaf}, Top {base_proof, sub_proof, top_proof, root,
    leaf}.
    """
    proof = source.inside("data").variant(VARIANTS, VARIANTS[len(parts) - 1])
    if len(parts) == 1:
        root, leaf = _read_ends(proof)
        return MerkleProof(root, leaf, _read_path(proof.part("path"), parts[0]))
    path = tuple(
        element
        for name, arities in zip(PARTS, parts, strict=False)
        for element in _read_path(proof.part(name), arities)
    )
    return MerkleProof(*_read_ends(proof), path)


def write_merkle_proof(proof: MerkleProof, parts: PathParts) -> bytes:
    """In bincode: inverse of `read_merkle_proof`."""
    ends = fr.to_bytes(proof.root) + fr.to_bytes(proof.leaf)
    paths, elements = b"", iter(proof.path)
    for arities in parts:
        paths += _U64.pack(len(arities)) + b"".join(_write_element(next(elements)) for _ in arities)
    return _U32.pack(len(parts) - 1) + (ends + paths if len(parts) == 1 else paths + ends)


def merkle_proof_size(parts: PathParts) -> int:
    """Bytes of a MerkleProof in bincode."""
    return 4 + 64 + sum(8 + sum(16 + 32 * (arity - 1) for arity in arities) for arities in parts)


def _read_ends(proof: Source) -> tuple[int, int]:
    return proof.part("root").element(), proof.part("leaf").element()


def _read_path(source: Source, arities: Sequence[int]) -> tuple[PathElement, ...]:
    items = source.inside("path").items(len(arities))
    return tuple(_read_element(item, arity) for item, arity in zip(items, arities, strict=True))


def _read_element(source: Source, arity: int) -> PathElement:
    siblings = source.part("hashes").elements(arity - 1)
    place = source.part("index")
    index = place.number(64)
    if index >= arity:
        raise MalformedVanillaProof(f"index {index} in a tree of arity {arity}", field=place.place)
    return PathElement(siblings, index)


def _write_element(element: PathElement) -> bytes:
    siblings = b"".join(map(fr.to_bytes, element.siblings))
    return _U64.pack(len(element.siblings)) + siblings + _U64.pack(element.index)

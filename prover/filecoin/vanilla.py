"""Vanilla PoSt proofs: FallbackPoStSectorProof in bincode, read against the shape of its circuit, and written.

bincode 1.x: little-endian fixed integers, u64 lengths, u32 enum variants, 32-byte field elements without a length.
The shape fixes every length, so nothing is allocated because the input says so.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from . import fr
from .errors import MalformedVanillaProof, NonCanonicalElement, TrailingBytes, TruncatedVanillaProof
from .shapes import PostShape, SectorShape

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


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
    reader = _Reader(data)
    sector_id = reader.u64(f"{field}.sector_id")
    comm_r = reader.element(f"{field}.comm_r")
    entry = f"{field}.sectors"
    reader.length(1, entry)
    entry += "[0]"
    reader.length(shape.paths_per_vanilla_proof, f"{entry}.inclusion_proofs")
    proofs = tuple(
        _read_merkle_proof(reader, shape.sector, f"{entry}.inclusion_proofs[{i}]")
        for i in range(shape.paths_per_vanilla_proof)
    )
    comm_c = reader.element(f"{entry}.comm_c")
    comm_r_last = reader.element(f"{entry}.comm_r_last")
    reader.end(field)
    return SectorProof(sector_id, comm_r, comm_c, comm_r_last, proofs)


def read_sector_head(data: bytes, field: str) -> tuple[int, int]:
    """The sector id and comm_r with which the vanilla proof in `data` begins."""
    reader = _Reader(data)
    return reader.u64(f"{field}.sector_id"), reader.element(f"{field}.comm_r")


def write_sector_proof(proof: SectorProof, sector: SectorShape) -> bytes:
    """Inverse of `read_sector_proof`."""
    parts = [
        _U64.pack(proof.sector_id),
        fr.to_bytes(proof.comm_r),
        _U64.pack(1),
        _U64.pack(len(proof.inclusion_proofs)),
    ]
    parts += [_write_merkle_proof(inclusion, sector) for inclusion in proof.inclusion_proofs]
    return b"".join([*parts, fr.to_bytes(proof.comm_c), fr.to_bytes(proof.comm_r_last)])


def vanilla_size(shape: PostShape) -> int:
    """The number of bytes of a vanilla proof for this circuit."""
    sector = shape.sector
    levels = sum(16 + 32 * (arity - 1) for arity in sector.arities)
    return 56 + shape.paths_per_vanilla_proof * (4 + 64 + 8 * len(_parts(sector)) + levels) + 64


class _Reader:
    """Reads bincode; never takes more memory than the bytes it is given."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def u32(self, field: str) -> int:
        return int.from_bytes(self._take(4, field), "little")

    def u64(self, field: str) -> int:
        return int.from_bytes(self._take(8, field), "little")

    def element(self, field: str) -> int:
        value = int.from_bytes(self._take(32, field), "little")
        if value >= fr.MODULUS:
            raise NonCanonicalElement(field=field)
        return value

    def length(self, expected: int, field: str) -> None:
        """A declared length, which the shape prescribes."""
        found = self.u64(field)
        if found != expected:
            raise MalformedVanillaProof(f"{found} elements declared, {expected} prescribed", field=field)

    def end(self, field: str) -> None:
        left = len(self._data) - self._at
        if left:
            raise TrailingBytes(f"{left} bytes follow the {self._at} bytes of the proof", field=field)

    def _take(self, size: int, field: str) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise TruncatedVanillaProof(f"{size} bytes needed, {len(self._data) - start} left", field=field)
        return self._data[start : self._at]


def _parts(sector: SectorShape) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """The paths that make up an inclusion proof, in the order of the file: name and arity of each level."""
    upper = tuple(arity for arity in (sector.sub, sector.top) if arity)
    base = sector.arities[: len(sector.arities) - len(upper)]
    names = (("path",), ("base_proof", "sub_proof"), ("base_proof", "sub_proof", "top_proof"))[len(upper)]
    return tuple(zip(names, (base, *((arity,) for arity in upper)), strict=True))


def _read_merkle_proof(reader: _Reader, sector: SectorShape, field: str) -> MerkleProof:
    """Variants: 0 Single {root, leaf, path}, 1 Sub {base, sub, root, leaf}, 2 Top {base, sub, top, root, leaf}."""
    parts = _parts(sector)
    variant = reader.u32(field)
    if variant != len(parts) - 1:
        raise MalformedVanillaProof(f"variant {variant} found, {len(parts) - 1} prescribed", field=field)
    if variant == 0:
        root, leaf = _read_ends(reader, field)
        return MerkleProof(root, leaf, _read_path(reader, parts[0][1], f"{field}.path"))
    path = tuple(element for name, arities in parts for element in _read_path(reader, arities, f"{field}.{name}"))
    return MerkleProof(*_read_ends(reader, field), path)


def _read_ends(reader: _Reader, field: str) -> tuple[int, int]:
    return reader.element(f"{field}.root"), reader.element(f"{field}.leaf")


def _read_path(reader: _Reader, arities: Sequence[int], field: str) -> tuple[PathElement, ...]:
    reader.length(len(arities), field)
    return tuple(_read_element(reader, arity, f"{field}[{i}]") for i, arity in enumerate(arities))


def _read_element(reader: _Reader, arity: int, field: str) -> PathElement:
    reader.length(arity - 1, f"{field}.hashes")
    siblings = tuple(reader.element(f"{field}.hashes[{i}]") for i in range(arity - 1))
    index = reader.u64(f"{field}.index")
    if index >= arity:
        raise MalformedVanillaProof(f"index {index} in a tree of arity {arity}", field=f"{field}.index")
    return PathElement(siblings, index)


def _write_merkle_proof(proof: MerkleProof, sector: SectorShape) -> bytes:
    parts = _parts(sector)
    ends = fr.to_bytes(proof.root) + fr.to_bytes(proof.leaf)
    paths, elements = b"", iter(proof.path)
    for _, arities in parts:
        paths += _U64.pack(len(arities)) + b"".join(_write_element(next(elements)) for _ in arities)
    return _U32.pack(len(parts) - 1) + (ends + paths if len(parts) == 1 else paths + ends)


def _write_element(element: PathElement) -> bytes:
    siblings = b"".join(map(fr.to_bytes, element.siblings))
    return _U64.pack(len(element.siblings)) + siblings + _U64.pack(element.index)

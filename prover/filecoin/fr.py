"""The scalar field Fr of BLS12-381 in bytes: 32 little-endian bytes, canonical, as Filecoin stores every commitment."""

from __future__ import annotations

from .errors import NonCanonicalElement, WrongLength
from .poseidon import MODULUS

__all__ = ["MODULUS", "SIZE", "clear", "from_bytes", "to_bytes"]

SIZE = 32  # bytes


def from_bytes(data: bytes, field: str) -> int:
    """The canonical element in `data`. Raises WrongLength or NonCanonicalElement, naming `field`."""
    if len(data) != SIZE:
        raise WrongLength(f"{len(data)} bytes given, {SIZE} needed", field=field)
    value = int.from_bytes(data, "little")
    if value >= MODULUS:
        raise NonCanonicalElement(field=field)
    return value


def to_bytes(value: int) -> bytes:
    """The 32 little-endian bytes of a canonical element."""
    return value.to_bytes(SIZE, "little")


def clear(digest: bytes) -> bytes:
    """A 32-byte digest with its top two bits set to 0: less than 2^254, hence canonical."""
    return digest[:31] + bytes([digest[31] & 0x3F])

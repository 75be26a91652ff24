"""The ChaCha stream cipher as the generator behind parents (8 rounds) and synthetic challenges (20 rounds)."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack, unpack

_CONSTANTS = unpack("<4I", b"expand 32-byte k")
_COLUMNS = tuple((i, i + 4, i + 8, i + 12) for i in range(4))
_DIAGONALS = tuple((i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4) for i in range(4))
_U32 = 0xFFFFFFFF
BLOCK = 64  # bytes


def chacha8_u64(key: bytes) -> Iterator[int]:
    """Little-endian u64 numbers of the keystream of ChaCha with 8 rounds, nonce 0, 64-bit block counter from 0."""
    counter = 0
    while True:
        yield from unpack("<8Q", _block(8, key, (counter & _U32, counter >> 32, 0, 0)))
        counter += 1


def chacha20_bytes(key: bytes, nonce: bytes, start: int, size: int) -> bytes:
    """`size` bytes of the keystream of ChaCha20 from byte `start` on; nonce of 12 bytes, 32-bit counter from 0."""
    first, last = start // BLOCK, -(-(start + size) // BLOCK)
    words = unpack("<3I", nonce)
    stream = b"".join(_block(20, key, (counter, *words)) for counter in range(first, last))
    return stream[start - first * BLOCK :][:size]


def _block(rounds: int, key: bytes, rest: tuple[int, ...]) -> bytes:
    """64 bytes of keystream; `rest` are the four words of counter and nonce."""
    start = (*_CONSTANTS, *unpack("<8I", key), *rest)
    state = list(start)
    for _ in range(rounds // 2):
        for places in (*_COLUMNS, *_DIAGONALS):
            _quarter_round(state, *places)
    return pack("<16I", *((word + before) & _U32 for word, before in zip(state, start, strict=True)))


def _quarter_round(s: list[int], a: int, b: int, c: int, d: int) -> None:
    for bits in ((16, 12), (8, 7)):
        s[a] = (s[a] + s[b]) & _U32
        s[d] = _rotated(s[d] ^ s[a], bits[0])
        s[c] = (s[c] + s[d]) & _U32
        s[b] = _rotated(s[b] ^ s[c], bits[1])


def _rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & _U32

"""SHA-256 in rows: the compression function, messages of Booleans, and digests of field elements.

`compress` is written over `Words`, so that recording rows and computing values cannot fall apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from prover.circuits.boolean import FALSE, TRUE, Boolean, booleans, constant
from prover.circuits.constraint_system import ConstraintSystem, Variable
from prover.circuits.num import CAPACITY, pack_bits, to_bits
from prover.circuits.uint32 import RowWords, constant_word, words_of_bits

W = TypeVar("W")

BLOCK_BITS: Final = 512
STATE_BITS: Final = 256
_LENGTH_BITS = 64

INITIAL_STATE: Final = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip
ROUND_CONSTANTS: Final = (
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
    0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
    0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
    0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
    0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2,
)  # fmt: skip


class Words(Protocol[W]):
    """Operations on 32-bit words, whatever a word is; those that allocate do so in the order of the calls."""

    def constant(self, value: int) -> W: ...

    def rotate(self, word: W, count: int) -> W:
        """Rotated right."""

    def shift(self, word: W, count: int) -> W:
        """Shifted right."""

    def xor(self, a: W, b: W) -> W: ...

    def choose(self, a: W, b: W, c: W) -> W:
        """Bit by bit b if a else c."""

    def majority(self, a: W, b: W, c: W) -> W: ...

    def add(self, *operands: W) -> W:
        """The sum modulo 2^32."""


def compress(words: Words[W], message: Sequence[W], state: Sequence[W]) -> list[W]:
    """The next state from 16 words of message and 8 of state."""
    schedule = _schedule(words, message)
    a, b, c, d, e, f, g, h = state
    later_a: tuple[W, ...] = ()
    later_e: tuple[W, ...] = ()
    for i, (word, key) in enumerate(zip(schedule, ROUND_CONSTANTS, strict=True)):
        # the sums for the next a and e are made where they are first read
        if i:
            e = words.add(*later_e)
        chosen = _rotations(words, e, 6, 11, 25), words.choose(e, f, g)
        if i:
            a = words.add(*later_a)
        mixed = _rotations(words, a, 2, 13, 22), words.majority(a, b, c)
        first = (h, *chosen, words.constant(key), word)
        later_e, later_a = (*first, d), (*first, *mixed)
        h, g, f, d, c, b = g, f, e, c, b, a
    last = (later_a, (b,), (c,), (d,), later_e, (f,), (g,), (h,))
    return [words.add(*operands, before) for operands, before in zip(last, state, strict=True)]


def _schedule(words: Words[W], message: Sequence[W]) -> list[W]:
    """The message expanded to a word a round."""
    w = list(message)
    for i in range(16, 64):
        x, y = w[i - 15], w[i - 2]
        s0 = words.xor(words.xor(words.rotate(x, 7), words.rotate(x, 18)), words.shift(x, 3))
        s1 = words.xor(words.xor(words.rotate(y, 17), words.rotate(y, 19)), words.shift(y, 10))
        w.append(words.add(w[i - 16], s0, w[i - 7], s1))
    return w


def _rotations(words: Words[W], word: W, first: int, second: int, third: int) -> W:
    return words.xor(words.xor(words.rotate(word, first), words.rotate(word, second)), words.rotate(word, third))


@dataclass(frozen=True, slots=True)
class Compression:
    """The compression function as a template; its variables are the bits that are not constant, in order.

    `pattern` has a letter for each of the 512 bits of message, then the 256 of state: 0, 1, or v for a variable.
    Message and state are big-endian; so is the new state, 256 bits.
    """

    pattern: str

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        return tuple(_variable(bit) for bit in self.run(RowWords(cs), variables))

    def run(self, words: RowWords, variables: Sequence[Variable]) -> list[Boolean]:
        """The new state; a constant one only when all is constant."""
        given = iter(variables)
        bits = [Boolean(next(given)) if letter == "v" else constant(letter == "1") for letter in self.pattern]
        blocks = words_of_bits(bits)
        state = compress(words, blocks[:16], blocks[16:])
        words.finish()
        return [bit for word in state for bit in reversed(word)]


def pattern_of(bits: Sequence[Boolean]) -> str:
    """A letter for each bit: 0, 1, or v for a variable. Raises ValueError for a complement."""
    if any(bit.variable is not None and bit.negated for bit in bits):
        raise ValueError("SHA-256 takes bits and constants, no complements")
    return "".join("v" if bit.variable is not None else "01"[bit.negated] for bit in bits)


def sha256(cs: ConstraintSystem, bits: Sequence[Boolean]) -> tuple[Variable, ...]:
    """The digest of whole bytes, 256 bits, each byte's most significant bit first.

    A block must not hold a bit twice, and some bit must be a variable; else ValueError.
    """
    message = padded(bits)
    state = initial_state()
    for start in range(0, len(message), BLOCK_BITS):
        state = _compressed(cs, (*message[start : start + BLOCK_BITS], *state))
    return tuple(map(_variable, state))


def initial_state() -> tuple[Boolean, ...]:
    """The constant state before the first block."""
    return tuple(bit for value in INITIAL_STATE for bit in reversed(constant_word(value)))


def padded(bits: Sequence[Boolean]) -> tuple[Boolean, ...]:
    """The message with its padding: a 1, zeros, and its length in 64 bits. Raises ValueError for a part of a byte."""
    if len(bits) % 8:
        raise ValueError(f"a message of {len(bits)} bits is not whole bytes")
    zeros = -(len(bits) + 1 + _LENGTH_BITS) % BLOCK_BITS
    length = (constant(len(bits) >> i & 1) for i in reversed(range(_LENGTH_BITS)))
    return (*bits, TRUE, *(FALSE,) * zeros, *length)


def _compressed(cs: ConstraintSystem, bits: tuple[Boolean, ...]) -> tuple[Boolean, ...]:
    gadget = Compression(pattern_of(bits))
    variables = [bit.variable for bit in bits if bit.variable is not None]
    if not variables:
        return tuple(gadget.run(RowWords(cs), ()))
    return booleans(cs.instance(gadget, *variables))


def _variable(bit: Boolean) -> Variable:
    if bit.variable is None or bit.negated:
        raise ValueError("the digest of a constant message needs no circuit")
    return bit.variable


def reversed_bytes(bits: Sequence[Boolean]) -> tuple[Boolean, ...]:
    """Bits, least significant first, as SHA-256 reads them: zeros up to whole bytes, then each byte reversed."""
    whole = (*bits, *(FALSE,) * (-len(bits) % 8))
    return tuple(bit for start in range(0, len(whole), 8) for bit in reversed(whole[start : start + 8]))


def number_bits(cs: ConstraintSystem, number: Variable) -> tuple[Boolean, ...]:
    """A number as 256 bits of a message."""
    return reversed_bytes(booleans(to_bits(cs, number)))


def sha256_number(cs: ConstraintSystem, bits: Sequence[Boolean]) -> Variable:
    """The digest as a number: little-endian, modulo 2^254."""
    digest = reversed_bytes(booleans(sha256(cs, bits)))
    return pack_bits(cs, [_variable(bit) for bit in digest[:CAPACITY]])


@dataclass(frozen=True, slots=True)
class Sha256Pair:
    """The digest of two numbers as a number: the node of a binary tree."""

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable]:
        left, right = variables
        return (sha256_number(cs, (*number_bits(cs, left), *number_bits(cs, right))),)

"""What the SHA-256 gadgets allocate, for many messages at once.

A pattern says which bits of a message are variables; it fixes which bits of which intermediate words are allocated. The
words are computed with numpy, one step of the compression function for all messages together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from prover.circuits.boolean import Boolean
from prover.circuits.constraint_system import Combination, ConstraintSystem
from prover.circuits.sha256 import (
    BLOCK_BITS,
    INITIAL_STATE,
    Compression,
    compress,
    initial_state,
    padded,
    pattern_of,
)
from prover.circuits.uint32 import BITS, RowWords, Word

Words = NDArray[np.uint32]
Bits = NDArray[np.uint8]
#: bits kept of each intermediate word: sums have carries
_TRACE_BITS = 64


@dataclass(frozen=True, eq=False)
class MessageTrace:
    """The allocations of `sha256.sha256` for messages of one pattern; made by `message_trace`."""

    blocks: tuple[_BlockPlaces, ...]

    @property
    def num_aux(self) -> int:
        return sum(len(block.places) for block in self.blocks)

    def bits(self, messages: Sequence[bytes]) -> Bits:
        """uint8[n, num_aux], one row a message, each as long as the pattern."""
        words = _padded_words(messages)
        state = [np.full(len(messages), value, np.uint32) for value in INITIAL_STATE]
        out = np.empty((len(messages), self.num_aux), np.uint8)
        start = 0
        for number, block in enumerate(self.blocks):
            recorder = _TracedWords()
            state = compress(recorder, list(words[number]), state)
            end = start + len(block.places)
            block.fill(recorder.words, out[:, start:end])
            start = end
        return out


@lru_cache(maxsize=64)
def message_trace(pattern: str) -> MessageTrace:
    """`pattern` has a letter for each bit of the message: 0, 1, or v for a variable."""
    bits = padded([Boolean(i) if letter == "v" else Boolean(None, letter == "1") for i, letter in enumerate(pattern)])
    state: Sequence[Boolean] = initial_state()
    blocks = []
    for start in range(0, len(bits), BLOCK_BITS):
        block = _block_places(pattern_of((*bits[start : start + BLOCK_BITS], *state)))
        blocks.append(block)
        state = block.state
    return MessageTrace(tuple(blocks))


@dataclass(frozen=True, eq=False)
class _BlockPlaces:
    """Where the allocations of one block are among the bits of its intermediate words, and which are complements."""

    places: NDArray[np.int32]
    complemented: Bits
    state: tuple[Boolean, ...]

    def fill(self, words: Sequence[NDArray[np.uint64]], out: Bits) -> None:
        """`words`: uint64[n] each; `out` uint8[n, allocations]."""
        trace = np.ascontiguousarray(np.stack(words, axis=1), dtype="<u8")
        bits = np.unpackbits(trace.view(np.uint8), axis=1, bitorder="little")
        for row, target in zip(bits, out, strict=True):
            np.bitwise_xor(row[self.places], self.complemented, out=target)


@lru_cache(maxsize=256)
def _block_places(pattern: str) -> _BlockPlaces:
    words = _PlacedWords()
    variables = range(-2, -2 - pattern.count("v"), -1)
    state = Compression(pattern).run(words, tuple(variables))
    places, complemented = zip(*words.places, strict=True) if words.places else ((), ())
    return _BlockPlaces(np.array(places, np.int32), np.array(complemented, np.uint8), tuple(state))


class _Allocations(ConstraintSystem):
    """Only allocates."""

    def enforce(self, a: Combination, b: Combination, c: Combination) -> None:
        pass


class _PlacedWords(RowWords):
    """Finds, for each allocation in order, which bit of which word of `_TracedWords` it is, and if its complement."""

    def __init__(self) -> None:
        super().__init__(_Allocations())
        self.places: list[tuple[int, bool]] = []
        self._traced = 0

    def majority(self, a: Word, b: Word, c: Word) -> Word:
        # its word is traced, and then b and c
        word = super().majority(a, b, c)
        self._traced += 1
        return word

    def add(self, *operands: Word) -> Word:
        before = self.cs.num_aux
        word = super().add(*operands)
        self.places += (self._place(bit) for bit in range(self.cs.num_aux - before))
        self._traced += 1
        return word

    def _each(self, gadget: Callable[..., Boolean], *words: Word) -> Word:
        result = []
        for position, bits in enumerate(zip(*words, strict=True)):
            before = self.cs.num_aux
            bit = gadget(self.cs, *bits)
            allocated = self.cs.num_aux - before
            if allocated:
                self.places.append(self._place(position, bit.negated))
            if allocated == 2:
                self.places.append(self._place(_TRACE_BITS + position))
            result.append(bit)
        self._traced += 1
        return tuple(result)

    def _place(self, bit: int, negated: bool = False) -> tuple[int, bool]:
        return self._traced * _TRACE_BITS + bit, negated


class _TracedWords:
    """Operations on words of many messages, uint32[n]; keeps in `words` what may be allocated, uint64[n]."""

    def __init__(self) -> None:
        self.words: list[NDArray[np.uint64]] = []

    def constant(self, value: int) -> Words:
        return np.array([value], np.uint32)

    def rotate(self, word: Words, count: int) -> Words:
        return word >> np.uint32(count) | word << np.uint32(BITS - count)

    def shift(self, word: Words, count: int) -> Words:
        return word >> np.uint32(count)

    def xor(self, a: Words, b: Words) -> Words:
        return self._kept(a ^ b)

    def choose(self, a: Words, b: Words, c: Words) -> Words:
        return self._kept(c ^ a & (b ^ c))

    def majority(self, a: Words, b: Words, c: Words) -> Words:
        both = b & c
        result = self._kept(both | a & (b | c))
        self._kept(both)
        return result

    def add(self, *operands: Words) -> Words:
        total = operands[0].astype(np.uint64)
        for operand in operands[1:]:
            total = total + operand
        self.words.append(total)
        return total.astype(np.uint32)

    def _kept(self, word: Words) -> Words:
        self.words.append(word.astype(np.uint64))
        return word


def _padded_words(messages: Sequence[bytes]) -> Words:
    """uint32[blocks, 16, n]: the words of messages of one length with their padding."""
    size = len(messages[0])
    zeros = bytes(-(size + 9) % (BLOCK_BITS // 8))
    tail = b"\x80" + zeros + (8 * size).to_bytes(8, "big")
    data = np.frombuffer(b"".join(message + tail for message in messages), ">u4").astype(np.uint32)
    return np.ascontiguousarray(data.reshape(len(messages), -1, 16).transpose(1, 2, 0))

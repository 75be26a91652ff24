"""32-bit words of Booleans, and sums of them whose equations share rows.

A `Word` is 32 Booleans, least significant first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from prover.circuits.boolean import FALSE, Boolean, allocate_bits, booleans, choose, constant, majority, terms, xor
from prover.circuits.constraint_system import UNIT, ConstraintSystem, Variable, combination
from prover.circuits.num import CAPACITY

Word = tuple[Boolean, ...]
Term = tuple[Variable, int]

BITS = 32
MASK = (1 << BITS) - 1


def constant_word(value: int) -> Word:
    """A known word."""
    return tuple(constant(value >> i & 1) for i in range(BITS))


def words_of_bits(bits: Sequence[Boolean]) -> list[Word]:
    """Big-endian words: each has its most significant bit first in `bits`."""
    return [tuple(reversed(bits[i : i + BITS])) for i in range(0, len(bits), BITS)]


def sum_bits(operands: int) -> int:
    """Bits of a sum of words."""
    return (operands * MASK).bit_length()


class MultiEq:
    """Equations between sums of few bits, packed side by side into rows of less than 254 bits.

    A row is written when the next equation no longer fits: after the rows of that one's bits.
    """

    def __init__(self, cs: ConstraintSystem) -> None:
        self._cs = cs
        self._clear()

    def enforce_equal(self, bits: int, left: Iterable[Term], right: Iterable[Term]) -> None:
        """left = right, both below 2^bits."""
        if self._used + bits >= CAPACITY:
            self.flush()
        scale = 1 << self._used
        self._left += ((variable, scale * factor) for variable, factor in left)
        self._right += ((variable, scale * factor) for variable, factor in right)
        self._used += bits

    def flush(self) -> None:
        """Writes the row of the equations that have none yet."""
        if self._used:
            self._cs.enforce(combination(*self._left), UNIT, combination(*self._right))
            self._clear()

    def _clear(self) -> None:
        self._used = 0
        self._left: list[Term] = []
        self._right: list[Term] = []


class RowWords:
    """Operations on words as rows of a constraint system: `sha256.Words` over `Word`."""

    def __init__(self, cs: ConstraintSystem) -> None:
        self.cs = cs
        self._equations = MultiEq(cs)

    def constant(self, value: int) -> Word:
        return constant_word(value)

    def rotate(self, word: Word, count: int) -> Word:
        return word[count:] + word[:count]

    def shift(self, word: Word, count: int) -> Word:
        return word[count:] + (FALSE,) * count

    def xor(self, a: Word, b: Word) -> Word:
        return self._each(xor, a, b)

    def choose(self, a: Word, b: Word, c: Word) -> Word:
        return self._each(choose, a, b, c)

    def majority(self, a: Word, b: Word, c: Word) -> Word:
        return self._each(majority, a, b, c)

    def add(self, *operands: Word) -> Word:
        """The sum modulo 2^32. Its carries are allocated too; the equation goes to a shared row."""
        if all(bit.is_constant for word in operands for bit in word):
            return constant_word(sum(map(_value, operands)) & MASK)
        count = sum_bits(len(operands))
        result = allocate_bits(self.cs, count)
        left = (term for word in operands for i, bit in enumerate(word) for term in terms(bit, 1 << i))
        self._equations.enforce_equal(count, left, ((bit, 1 << i) for i, bit in enumerate(result)))
        return booleans(result[:BITS])

    def finish(self) -> None:
        """Writes the row of the last sums."""
        self._equations.flush()

    def _each(self, gadget: Callable[..., Boolean], *words: Word) -> Word:
        return tuple(gadget(self.cs, *bits) for bits in zip(*words, strict=True))


def _value(word: Word) -> int:
    """The value of a constant word."""
    return sum(bit.negated << i for i, bit in enumerate(word))

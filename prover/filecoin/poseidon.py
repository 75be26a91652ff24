"""Filecoin's Poseidon over BLS12-381's scalar field, on plain integers.

All values are canonical integers below `MODULUS`. The state of t = arity + 1 elements starts as (domain tag, inputs),
the digest is element 1 after the last round; the S-box is x^5, with 4 + RP + 4 rounds. Two forms are here:

* `plain_hash`: constants, S-box, matrix, as the definition reads. Slow; the oracle of the tests.
* `digest` and `trace`: the equivalent form of neptune's legacy circuit, with round constants moved behind the S-boxes
  and the partial rounds' matrices factored into sparse ones. `trace` gives every value that the circuit allocates.

Source: the Poseidon paper (Grassi et al., appendices B and F); spec of neptune 11.0.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import mul

from prover.errors import InvalidInput

MODULUS = 0x73EDA753299D7D483339D80809A1D80553BDA402FFFE5BFEFFFFFFFF00000001
FULL_ROUNDS = 8
#: domain tag of the sector update's randomness (HashType::Custom(Arbitrary(1)))
GENERATION_TAG = 1 << 40
#: number of partial rounds by the width t, up to and including the bound
_PARTIAL_ROUNDS = ((3, 55), (7, 56), (15, 57), (25, 59), (37, 60), (65, 61))
_HALF = FULL_ROUNDS // 2

Vector = tuple[int, ...]
Matrix = tuple[Vector, ...]


class PoseidonInputInvalid(InvalidInput):
    """A Poseidon input is outside the field, or their number is not supported."""

    code = "poseidon_input_invalid"


@dataclass(frozen=True, slots=True)
class SparseMix:
    """new_0 = sum s_i w_i; new_j = s_j + s_0 v_(j-1): `w` has t elements, `v` has t - 1."""

    w: Vector
    v: Vector


@dataclass(frozen=True, slots=True)
class Poseidon:
    """The constants of one arity. `mds` and `pre_sparse` act on row vectors: new_j = sum_i s_i X_ij."""

    arity: int
    partial_rounds: int
    round_constants: Matrix
    mds: Matrix
    #: k of the legacy circuit, 8 t + RP values
    compressed: Vector
    pre_sparse: Matrix
    sparse: tuple[SparseMix, ...]
    _mds_columns: Matrix
    _pre_sparse_columns: Matrix

    @property
    def width(self) -> int:
        return self.arity + 1

    @property
    def tree_tag(self) -> int:
        """The domain tag of Merkle trees, columns and comm_r."""
        return (1 << self.arity) - 1

    def plain_hash(self, inputs: Sequence[int], tag: int | None = None) -> int:
        """The digest of `arity` canonical inputs, computed as the definition reads."""
        state = [self.tree_tag if tag is None else tag, *self._checked(inputs)]
        for number, constants in enumerate(self.round_constants):
            state = [s + c for s, c in zip(state, constants, strict=True)]
            full = number < _HALF or number >= _HALF + self.partial_rounds
            state = [pow(s, 5, MODULUS) if full or i == 0 else s for i, s in enumerate(state)]
            state = _mix(self._mds_columns, state)
        return state[1]

    def digest(self, inputs: Sequence[int], tag: int | None = None) -> int:
        """The digest of `arity` canonical inputs. Raises PoseidonInputInvalid for another count or value."""
        return self.trace(inputs, tag)[-1]

    def trace(self, inputs: Sequence[int], tag: int | None = None) -> list[int]:
        """What the legacy circuit allocates, in order, the digest last: 3 arity + 4 (7 t + RP) + 1 values."""
        out: list[int] = []
        width, k = self.width, self.compressed
        state = self._first_round(inputs, self.tree_tag if tag is None else tag, out)
        for start, columns in ((2, self._mds_columns), (3, self._mds_columns), (4, self._pre_sparse_columns)):
            state = _mix(columns, _substitute(state, k[start * width : (start + 1) * width], out))
        state = self._partial(state, k[5 * width : 5 * width + self.partial_rounds], out)
        for start in range(5 * width + self.partial_rounds, len(k), width):
            state = _mix(self._mds_columns, _substitute(state, k[start : start + width], out))
        state = _substitute(state, (0,) * width, out)
        out += _mix(self._mds_columns[1:2], state)
        return out

    def _checked(self, inputs: Sequence[int]) -> Sequence[int]:
        if len(inputs) != self.arity:
            raise PoseidonInputInvalid(f"{len(inputs)} inputs for arity {self.arity}")
        for position, value in enumerate(inputs):
            if not 0 <= value < MODULUS:
                raise PoseidonInputInvalid(f"input {position} is not below the field's modulus")
        return inputs

    def _first_round(self, inputs: Sequence[int], tag: int, out: list[int]) -> list[int]:
        """Round 0: the tag's S-box is a constant, the inputs are variables already."""
        k, width = self.compressed, self.width
        state = [pow(tag + k[0], 5, MODULUS) + k[width]]
        for value, pre, post in zip(self._checked(inputs), k[1:width], k[width + 1 : 2 * width], strict=True):
            x = value + pre
            p = x * x % MODULUS
            q = p * p % MODULUS
            z = (x * q + post) % MODULUS
            out += (p, q, z)
            state.append(z)
        return _mix(self._mds_columns, state)

    def _partial(self, state: list[int], keys: Vector, out: list[int]) -> list[int]:
        """The partial rounds. `rest` is left unreduced: 57 products make it 6 bits longer, a reduction costs more."""
        y, *rest = state
        for mix, key in zip(self.sparse, keys, strict=True):
            p = y * y % MODULUS
            q = p * p % MODULUS
            z = (y * q + key) % MODULUS
            out += (y, p, q, z)
            y = sum(map(mul, mix.w, (z, *rest))) % MODULUS
            rest = [s + z * x for s, x in zip(rest, mix.v, strict=True)]
        return [y, *(s % MODULUS for s in rest)]


@lru_cache
def poseidon(arity: int) -> Poseidon:
    """The constants of `arity` inputs, made on first use (well under a second) and kept."""
    width = arity + 1
    partial = _partial_rounds(width)
    constants = _round_constants(width, partial)
    mds = tuple(tuple(pow(i + j + width, -1, MODULUS) for j in range(width)) for i in range(width))
    sparse, pre_sparse = _factor(mds, partial)
    compressed = _compress(constants, _inverse(mds), partial)
    columns, pre_columns = tuple(zip(*mds, strict=True)), tuple(zip(*pre_sparse, strict=True))
    return Poseidon(arity, partial, constants, mds, compressed, pre_sparse, sparse, columns, pre_columns)


def digest(inputs: Sequence[int], tag: int | None = None) -> int:
    """Poseidon of as many canonical integers as there are, by default with the domain tag of trees."""
    return poseidon(len(inputs)).digest(inputs, tag)


def _mix(columns: Matrix, state: Sequence[int]) -> list[int]:
    return [sum(map(mul, column, state)) % MODULUS for column in columns]


def _substitute(state: Sequence[int], post: Vector, out: list[int]) -> list[int]:
    """The S-box of every element; `out` receives x, x^2, x^4 and x^5 + post of each."""
    result = []
    for x, constant in zip(state, post, strict=True):
        p = x * x % MODULUS
        q = p * p % MODULUS
        z = (x * q + constant) % MODULUS
        out += (x, p, q, z)
        result.append(z)
    return result


def _partial_rounds(width: int) -> int:
    for bound, rounds in _PARTIAL_ROUNDS:
        if 2 <= width <= bound:
            return rounds
    raise PoseidonInputInvalid(f"no Poseidon of arity {width - 1}")


def _round_constants(width: int, partial: int) -> Matrix:
    """One row of `width` constants a round: 255-bit numbers, most significant bit first, those >= MODULUS skipped."""
    bits = _grain_bits(width, partial)

    def number() -> int:
        while True:
            value = int("".join([next(bits) for _ in range(255)]), 2)
            if value < MODULUS:
                return value

    return tuple(tuple(number() for _ in range(width)) for _ in range(FULL_ROUNDS + partial))


def _grain_bits(width: int, partial: int) -> Iterator[str]:
    """The self-shrinking Grain LFSR: of each pair of bits the second, if the first is 1.

    Sixteen steps at a time; the oldest bit is the lowest of `state`.
    """
    seed = f"{1:02b}{1:04b}{255:012b}{width:012b}{FULL_ROUNDS:010b}{partial:010b}{'1' * 30}"
    state = int(seed[::-1], 2)
    discarded = 0
    while True:
        fresh = (state ^ state >> 13 ^ state >> 23 ^ state >> 38 ^ state >> 51 ^ state >> 62) & 0xFFFF
        state = state >> 16 | fresh << 64
        if discarded < 160:
            discarded += 16
            continue
        text = f"{fresh:016b}"[::-1]
        yield from (text[i + 1] for i in range(0, 16, 2) if text[i] == "1")


def _compress(constants: Matrix, inverse: Matrix, partial: int) -> Vector:
    """The round constants moved behind the S-boxes; of a partial round only the first element's stays."""
    columns = tuple(zip(*inverse, strict=True))
    keys: list[int] = []
    pending: Sequence[int] = constants[_HALF + partial]
    for row in reversed(constants[_HALF : _HALF + partial]):
        key, *moved = _mix(columns, pending)
        keys.append(key)
        pending = [(a + b) % MODULUS for a, b in zip(row, [0, *moved], strict=True)]
    compressed = list(constants[0])
    for moved_row in (*constants[1:_HALF], pending):
        compressed += _mix(columns, moved_row)
    compressed += reversed(keys)
    for row in constants[_HALF + partial + 1 :]:
        compressed += _mix(columns, row)
    return tuple(compressed)


def _factor(mds: Matrix, partial: int) -> tuple[tuple[SparseMix, ...], Matrix]:
    """The partial rounds' matrices as sparse ones, in the order of use, and the dense matrix before them."""
    current = mds
    found: list[SparseMix] = []
    for _ in range(partial):
        hat = tuple(row[1:] for row in current[1:])
        column = [row[0] for row in current[1:]]
        w = (current[0][0], *(sum(map(mul, row, column)) % MODULUS for row in _inverse(hat)))
        found.append(SparseMix(w, current[0][1:]))
        current = _product(mds, ((1,) + (0,) * len(hat), *((0, *row) for row in hat)))
    return tuple(reversed(found)), current


def _product(left: Matrix, right: Matrix) -> Matrix:
    columns = tuple(zip(*right, strict=True))
    return tuple(tuple(_mix(columns, row)) for row in left)


def _inverse(matrix: Matrix) -> Matrix:
    """By Gauss and Jordan. The matrices here are minors of Cauchy matrices and their products: invertible."""
    size = len(matrix)
    rows = [[*row, *(int(i == j) for j in range(size))] for i, row in enumerate(matrix)]
    for i in range(size):
        pivot = next(j for j in range(i, size) if rows[j][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        scale = pow(rows[i][i], -1, MODULUS)
        rows[i] = [value * scale % MODULUS for value in rows[i]]
        for j in range(size):
            if j != i and rows[j][i]:
                factor = rows[j][i]
                rows[j] = [(a - factor * b) % MODULUS for a, b in zip(rows[j], rows[i], strict=True)]
    return tuple(tuple(row[size:]) for row in rows)

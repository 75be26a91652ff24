"""Number-theoretic transforms over Fr and the quotient h of the QAP, on residues float32[22, m].

A transform of m = n1 * n2 values takes two passes (four-step): sub-transforms of length n1 down the columns, a
product with the twiddles w^(k1 j2), then sub-transforms of length n2. Both work on tiles of columns that stay in the
cache. What they multiply with is made from small tables; twiddles are kept, and the factors of small domains. On a CPU
the host cuts the tiles, and the second pass works in place; on other devices one program does it all, or, where the
device may not hold that much (`chunks`), the host cuts tiles for it too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from prover.algebra import chunks, constants
from prover.algebra.domains import MAX_LOG2, DomainTooLarge
from prover.algebra.fields import FR
from prover.algebra.kernels import Kernel, Residues, in_threads, kernel, tiles
from prover.algebra.limbs import Bytes
from prover.errors import InvalidInput

_K2: Final = 2 * FR.k
#: domains up to this size keep their factors, of each transform one: 22 MiB
_MOST_KEPT: Final = 18
#: and up to this size their twiddles: 352 MiB, and a tenth less work
_MOST_TWIDDLES_KEPT: Final = 22
#: what a transform in one program holds of the whole vector, and a pass of a tile, as multiples of its float32
_WHOLE_COPIES: Final = 4
_TILE_COPIES: Final = 16
#: tiles on a device at a time where the host cuts them for it: one is copied while the other is computed
_TILES_AT_ONCE: Final = 2
#: values of a transform that is a product with a matrix: sums of as many products are exact (see `rns`)
_RADIX: Final = 16
#: columns of a b - c at a time
_TILE: Final = 4096


class WrongLength(InvalidInput):
    """A vector is longer than the evaluation domain."""

    code = "wrong_vector_length"


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["roots1", "roots2", "low", "step"],
    meta_fields=["n1", "n2"],
)
@dataclass(frozen=True)
class _Plan:
    """Tables of the transforms with root w of order n1 n2."""

    n1: int
    n2: int
    roots1: Residues  # [22, n1]: powers of w^n2
    roots2: Residues  # [22, n2]: powers of w^n1
    low: Residues  # [22, n2]: powers of w
    step: Residues  # [22, n1, tile]: w^(k1 t)

    @property
    def log2(self) -> int:
        return (self.n1 * self.n2).bit_length() - 1

    @classmethod
    def of(cls, log2: int, tile: int) -> _Plan:
        n1, n2 = _split(log2)
        root = constants.root_of_unity(log2)
        exponents = np.outer(np.arange(n1), np.arange(min(tile, n2)))
        low = FR.powers(root, n2)
        roots1, roots2 = (FR.powers(pow(root, n, FR.p), count) for n, count in ((n2, n1), (n1, n2)))
        step = FR.mul_arrays(roots1[:, exponents.reshape(-1) // n2], low[:, exponents.reshape(-1) % n2])
        return cls(n1, n2, roots1, roots2, low, step.reshape(_K2, *exponents.shape))

    def powers(self, first: int) -> tuple[Residues, Residues]:
        """Two factors [22, n1] of w^(k1 first)."""
        exponents = np.arange(self.n1) * first % (self.n1 * self.n2)
        return self.roots1[:, exponents // self.n2], self.low[:, exponents % self.n2]


@functools.partial(jax.tree_util.register_dataclass, data_fields=["rows", "columns"], meta_fields=[])
@dataclass(frozen=True)
class _Factor:
    """first * base^k for each k = k2 n1 + k1, as a product of two."""

    rows: Residues  # [22, n2]
    columns: Residues  # [22, n1]

    @classmethod
    def of(cls, base: int, first: int, n1: int, n2: int) -> _Factor:
        rows = FR.powers(pow(base, n1, FR.p), n2, first % FR.p)
        return cls(rows, FR.powers(base % FR.p, n1))


class Domain:
    """The 2^log2-th roots of unity and their coset by 7, as bellman uses them. Immutable, for all devices."""

    def __init__(self, log2: int) -> None:
        """Raises DomainTooLarge above 2^24."""
        if not 0 <= log2 <= MAX_LOG2:
            raise DomainTooLarge(f"2^{log2} rows, at most 2^{MAX_LOG2}", field="domain")
        self.log2, self.size = log2, 1 << log2
        self._scale = pow(self.size, -1, constants.R)
        self._vanishing = pow(constants.GENERATOR, self.size, constants.R) - 1
        self._twiddles: dict[int, _Multipliers] = {}
        self._scales: dict[tuple[int, int], _Multipliers] = {}

    # single transforms: values or coefficients, residues [22, up to m] in, residues [22, m] out

    def fft(self, coefficients: Residues, threads: int = 1) -> Residues:
        """Coefficients -> values at w^i."""
        return self._transform(self._padded(coefficients), None, threads)

    def ifft(self, values: Residues, threads: int = 1) -> Residues:
        """Values at w^i -> coefficients."""
        return self._backwards(self._padded(values), self._unscale, threads)

    def coset_fft(self, coefficients: Residues, threads: int = 1) -> Residues:
        """Coefficients -> values at 7 w^i."""
        shifted = FR.mul_arrays(self._padded(coefficients), FR.powers(constants.GENERATOR, self.size), threads)
        return self._transform(shifted, None, threads)

    def coset_ifft(self, values: Residues, threads: int = 1) -> Residues:
        """Values at 7 w^i -> coefficients."""
        return self._backwards(self._padded(values), self._unshift, threads)

    # the quotient

    def compile(self) -> None:
        """Compile all that `quotient` needs, and make its tables; no transform is computed."""
        limit = chunks.limit()
        tile = self._tile(limit.nbytes) if limit else tiles().fft
        programs: list[Callable[[], object]] = [
            lambda: self._divide,
            *(functools.partial(_compile_combination, program, self.size) for program in (_product, _difference)),
            lambda: FR.decode(np.zeros((_K2, 1), np.float32)),
            *(functools.partial(self._compile_passes, factor, tile) for factor in (self._shift_unscale, None)),
        ]
        in_threads(lambda program: program(), programs, len(programs))

    def quotient(self, a: Residues, b: Residues, c: Residues, threads: int = 1) -> Bytes:
        """Evaluations a, b, c over the rows (up to m of them) -> the m - 1 coefficients of (A B - C) / (X^m - 1),
        uint8[m - 1, 32].

        The coefficient of X^(m-1) is left out: it is zero where the rows are satisfied. C's degree is below m, so its
        own coefficients are subtracted and it needs no values on the coset, where X^m - 1 is constant.
        """
        quotient_of_c = self._backwards(self._padded(c), self._unscale_divide, threads)
        product = self._to_coset(a, threads)
        _combine(_product, product, self._to_coset(b, threads), threads)
        h = self._backwards(product, self._divide, threads)
        _combine(_difference, h, quotient_of_c, threads)
        return FR.decode(h[:, : self.size - 1], threads)

    def _to_coset(self, values: Residues, threads: int) -> Residues:
        coefficients = self._backwards(self._padded(values), self._shift_unscale, threads)
        return self._transform(coefficients, None, threads)

    # tables, made when first needed

    @functools.cached_property
    def _unscale(self) -> _Factor:
        return self._factor(1, self._scale)

    @functools.cached_property
    def _unshift(self) -> _Factor:
        return self._factor(pow(constants.GENERATOR, -1, constants.R), self._scale)

    @functools.cached_property
    def _shift_unscale(self) -> _Factor:
        return self._factor(constants.GENERATOR, self._scale)

    @functools.cached_property
    def _divide(self) -> _Factor:
        """From the coset back to coefficients, divided by X^m - 1."""
        return self._factor(pow(constants.GENERATOR, -1, constants.R), self._scale_divided)

    @functools.cached_property
    def _unscale_divide(self) -> _Factor:
        """Back to coefficients, divided by what X^m - 1 is on the coset."""
        return self._factor(1, self._scale_divided)

    @property
    def _scale_divided(self) -> int:
        return self._scale * pow(self._vanishing, -1, constants.R) % constants.R

    def _factor(self, base: int, first: int) -> _Factor:
        """first * base^k for `_backwards`, which leaves out w^k."""
        n1, n2 = _split(self.log2)
        return _Factor.of(base * constants.root_of_unity(self.log2), first, n1, n2)

    def _padded(self, values: Residues) -> Residues:
        """Zeros appended up to the domain's size."""
        missing = self.size - values.shape[1]
        if missing < 0 or values.shape[0] != _K2:
            raise WrongLength(f"shape {values.shape} for a domain of {self.size}", field="domain")
        return np.pad(values, [(0, 0), (0, missing)]) if missing else values

    def _backwards(self, values: Residues, factor: _Factor, threads: int) -> Residues:
        """The transform by 1 / w: that by w of the values in reverse, moved by one place, which is a product with w^k
        in `factor`."""
        return self._transform(values[:, ::-1], factor, threads)

    def _transform(self, values: Residues, factor: _Factor | None, threads: int) -> Residues:
        if not chunks.apart():
            return self._by_tiles(values, factor, tiles().fft, threads)

        def in_memory(nbytes: int) -> Residues:
            tile = self._tile(nbytes)
            if tile:
                return self._by_tiles(values, factor, tile, min(threads, _TILES_AT_ONCE))
            return np.array(_whole(values, _plan(self.log2, tiles().fft), factor, tile=tiles().fft))  # ours to write

        return chunks.fitted(in_memory, self._vector_bytes * _WHOLE_COPIES)

    @property
    def _vector_bytes(self) -> int:
        return _K2 * self.size * np.dtype(np.float32).itemsize

    def _tile(self, nbytes: int) -> int:
        """Columns of the tiles of a device that may hold so many bytes, a power of two; 0 where it holds all."""
        if nbytes >= self._vector_bytes * _WHOLE_COPIES:
            return 0
        column = self._vector_bytes * _TILE_COPIES * _TILES_AT_ONCE // _split(self.log2)[1]
        return min(1 << max(nbytes // column, 1).bit_length() - 1, tiles().fft)

    def _by_tiles(self, values: Residues, factor: _Factor | None, tile: int, threads: int) -> Residues:
        plan = _plan(self.log2, tile)
        twiddles, scales = self._twiddles.setdefault(tile, _twiddles(plan)), None
        if factor:
            scales = self._scales.setdefault((id(factor), tile), _scales(plan, factor, min(tile, plan.n1)))
        return _by_host(plan, values, twiddles, scales, tile, threads)

    def _compile_passes(self, factor: _Factor | None, tile: int) -> None:
        """The programs of a transform by tiles, or (0) of one in one program."""
        if tile:
            _compile_tiles(_plan(self.log2, tile), factor, tile)
        else:
            _whole.compile(_shape(self.size), _plan(self.log2, tiles().fft), factor, tile=tiles().fft)


@functools.lru_cache(maxsize=16)
def _plan(log2: int, tile: int) -> _Plan:
    return _Plan.of(log2, tile)


class _Multipliers:
    """What the tiles of a pass are multiplied with, float32[22, n, tile], by the first column of the tile."""

    def __init__(self, made: Callable[[int], jax.Array], *, kept: bool) -> None:
        self._made, self._kept = made, kept
        self._known: dict[int, Residues] = {}

    def of(self, start: int) -> Residues:
        """Made anew, or kept from the first time."""
        if start in self._known:
            return self._known[start]
        found = np.asarray(self._made(start))
        if self._kept:
            self._known[start] = found
        return found


def _twiddles(plan: _Plan) -> _Multipliers:
    return _Multipliers(lambda start: _turn(*plan.powers(start), plan.step), kept=plan.log2 <= _MOST_TWIDDLES_KEPT)


def _scales(plan: _Plan, factor: _Factor, width: int) -> _Multipliers:
    def made(start: int) -> jax.Array:
        columns: jax.Array = _outer(factor.rows, np.ascontiguousarray(factor.columns[:, start : start + width]))
        return columns

    return _Multipliers(made, kept=plan.log2 <= _MOST_KEPT)


def _by_host(
    plan: _Plan, values: Residues, twiddles: _Multipliers, scales: _Multipliers | None, tile: int, threads: int
) -> Residues:
    """The two passes over tiles that the host cuts; the second one works in place."""
    x = values.reshape(_K2, plan.n1, plan.n2)
    y = np.empty((_K2, plan.n2, plan.n1), np.float32)
    width1, width2 = min(tile, plan.n2), min(tile, plan.n1)

    def first(start: int) -> None:
        part = np.ascontiguousarray(x[:, :, start : start + width1])
        y[:, start : start + width1] = np.asarray(_first(_before(part), plan.roots1, _after(twiddles.of(start))))

    def second(start: int) -> None:
        part = slice(start, start + width2)
        scale = _after(scales.of(start)) if scales else None
        y[:, :, part] = np.asarray(_second(_before(np.ascontiguousarray(y[:, :, part])), plan.roots2, scale))

    in_threads(first, range(0, plan.n2, width1), threads)
    in_threads(second, range(0, plan.n1, width2), threads)
    return y.reshape(_K2, -1)


def _combine(program: Kernel, out: Residues, other: Residues, threads: int) -> None:
    """`program` of both, tile by tile, in place of `out`."""

    def work(start: int) -> None:
        part = slice(start, start + _TILE)
        out[:, part] = np.asarray(program(np.ascontiguousarray(out[:, part]), np.ascontiguousarray(other[:, part])))

    in_threads(work, range(0, out.shape[1], _TILE), threads)


def _compile_combination(program: Kernel, size: int) -> None:
    program.compile(*[_shape(min(_TILE, size))] * 2)


def _compile_tiles(plan: _Plan, factor: _Factor | None, tile: int) -> None:
    n1, n2 = plan.n1, plan.n2
    width1, width2 = min(tile, n2), min(tile, n1)
    radices1, radices2 = _radices(n1), _radices(n2)
    scale = _shape(1, *radices2[::-1], width2) if factor else None
    _second.compile(_shape(1, *radices2, width2), _shape(n2), scale)
    if factor:
        _outer.compile(_shape(n2), _shape(width2))
    else:
        _first.compile(_shape(1, *radices1, width1), _shape(n1), _shape(1, *radices1[::-1], width1))
        _turn.compile(_shape(n1), _shape(n1), _shape(n1, width1))


def _shape(*sizes: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((_K2, *sizes), np.float32)  # type: ignore[no-untyped-call]


def _split(log2: int) -> tuple[int, int]:
    """(n1, n2) with n1 n2 = 2^log2."""
    return 1 << (log2 + 1) // 2, 1 << log2 // 2


def _transforms(x: jax.Array, roots: jax.Array, factor: jax.Array | None = None) -> jax.Array:
    """Transforms of n = radix * rows values, float32[22, many, radix, rows, columns] -> [22, many, rows, radix,
    columns], times a factor of that shape: radix is 16 or less, and rows once more the product of such factors.

    A transform of up to 16 values is a product with a matrix for each residue: sums of 16 products of balanced
    residues, which are below 2^52, reduced once. The rows that are worked on together are few, so that they stay in a
    core's cache.
    """
    if x.shape[3] == 1:
        return _times(_matrix_product(x.reshape(*x.shape[:3], -1), roots)[:, :, None], factor)
    return _interleaved(_turned(x, roots), roots[:, :: x.shape[2]], factor)


def _turned(x: jax.Array, roots: jax.Array) -> jax.Array:
    """Transforms down axis 2 of [22, many, radix, rows, columns], turned: value k of row j by root k j."""
    radix, rows = x.shape[2:4]
    turns = roots[:, np.outer(np.arange(radix), np.arange(rows))].astype(jnp.float64)[:, None, :, :, None]
    count = min(rows, max(1, tiles().rows // radix))

    def block(number: jax.Array, y: jax.Array) -> jax.Array:
        part, turn = (lax.dynamic_slice_in_dim(array, number * count, count, 3) for array in (x, turns))
        values = _matrix_product(part.reshape(*part.shape[:3], -1), roots).reshape(part.shape)
        done = FR.mul(values, turn).astype(jnp.float32)
        return lax.dynamic_update_slice_in_dim(y, done, number * count, 3)

    result: jax.Array = lax.fori_loop(0, rows // count, block, jnp.zeros(x.shape, jnp.float32))
    return result


def _interleaved(x: jax.Array, roots: jax.Array, factor: jax.Array | None) -> jax.Array:
    """Transforms down axis 3 of [22, many, radix, rows, columns], value i of transform k at place [i, k]."""
    many, radix, rows, columns = x.shape[1:]
    count = min(radix, max(1, tiles().rows // rows))

    def some(number: jax.Array, y: jax.Array) -> jax.Array:
        part = lax.dynamic_slice_in_dim(x, number * count, count, 2)
        own = None
        if factor is not None:
            own = lax.dynamic_slice_in_dim(factor, number * count, count, 3).swapaxes(2, 3)
            own = own.reshape(_K2, many * count, *_radices(rows)[::-1], columns)
        done = _transforms(part.reshape(_K2, many * count, *_radices(rows), columns), roots, own)
        placed = done.reshape(_K2, many, count, rows, columns).swapaxes(2, 3)
        return lax.dynamic_update_slice_in_dim(y, placed, number * count, 3)

    empty = jnp.zeros((_K2, many, rows, radix, columns), jnp.float32)
    result: jax.Array = lax.fori_loop(0, radix // count, some, empty)
    return result


def _matrix_product(x: jax.Array, roots: jax.Array) -> jax.Array:
    """Transforms down axis 2 of [22, many, radix, columns], reduced; roots [22, a multiple of radix]."""
    radix, length = x.shape[2], roots.shape[1]
    exponents = np.outer(np.arange(radix), np.arange(radix)) * (length // radix) % length
    matrix = roots[:, exponents].astype(jnp.float64)
    sums = lax.dot_general(matrix, x.astype(jnp.float64), (((2,), (2,)), ((0,), (0,))), precision="highest")
    return FR.reduce(sums.reshape(_K2, -1)).reshape(sums.shape).swapaxes(1, 2)


def _times(x: jax.Array, factor: jax.Array | None) -> jax.Array:
    """Products as float32, or x where there is no factor."""
    x = x if factor is None else FR.mul(x.astype(jnp.float64), factor.astype(jnp.float64))
    return x.astype(jnp.float32)


def _radices(n: int) -> tuple[int, int]:
    """(radix, rows) of a transform of n values: radix the first of the factors of n, of which all others are 16."""
    log2, most = n.bit_length() - 1, _RADIX.bit_length() - 1
    radix = 1 << (log2 % most or min(log2, most))
    return radix, n // radix


@kernel()
def _first(x: jax.Array, roots: jax.Array, turn: jax.Array) -> jax.Array:
    """The first pass on a tile of columns float32[22, 1, radix, rows, w], times their twiddles [22, 1, rows, radix, w]:
    float32[22, w, n1]."""
    return _transforms(x, roots, turn).reshape(_K2, -1, x.shape[-1]).transpose(0, 2, 1)


@kernel()
def _second(x: jax.Array, roots: jax.Array, scale: jax.Array | None) -> jax.Array:
    """The second pass on a tile of columns float32[22, 1, radix, rows, w], times a factor if given: float32[22, n2,
    w]."""
    return _transforms(x, roots, scale).reshape(_K2, -1, x.shape[-1])


def _before(tile: Any) -> Any:
    """A tile [22, n, w] as the passes take it. Not done in the programs: XLA would copy it."""
    return tile.reshape(_K2, 1, *_radices(tile.shape[1]), tile.shape[2])


def _after(tile: Any) -> Any:
    """A tile of factors [22, n, w], in the order in which the passes leave their values."""
    return tile.reshape(_K2, 1, *_radices(tile.shape[1])[::-1], tile.shape[2])


@kernel()
def _turn(high: jax.Array, low: jax.Array, step: jax.Array) -> jax.Array:
    """The twiddles of a tile, high * low * step: float32[22, n1, w]."""
    at = FR.mul(high.astype(jnp.float64), low.astype(jnp.float64))
    return FR.mul(at[:, :, None], step.astype(jnp.float64)).astype(jnp.float32)


@kernel()
def _outer(rows: jax.Array, columns: jax.Array) -> jax.Array:
    """A factor's tile: float32[22, n2, w]."""
    return FR.mul(rows.astype(jnp.float64)[:, :, None], columns.astype(jnp.float64)[:, None]).astype(jnp.float32)


@kernel("tile")
def _whole(x: jax.Array, plan: _Plan, factor: _Factor | None, tile: int) -> jax.Array:
    """A transform of float32[22, m] in one program, for devices with a memory of their own."""
    n1, n2 = plan.n1, plan.n2
    width1, width2 = min(tile, n2), min(tile, n1)
    exponents = np.outer(np.arange(0, n2, width1), np.arange(n1)) % (n1 * n2)
    x = x.reshape(_K2, n1, n2)

    def columns(array: jax.Array | Residues, start: jax.Array, width: int) -> jax.Array:
        return lax.dynamic_slice_in_dim(array, start, width, array.ndim - 1)

    def first(part: tuple[jax.Array, jax.Array]) -> jax.Array:
        start, exponent = part
        high, low = plan.roots1[:, exponent // n2], plan.low[:, exponent % n2]
        turn = _turn.function(high, low, plan.step)
        turned: jax.Array = _first.function(_before(columns(x, start, width1)), plan.roots1, _after(turn))
        return turned

    y = lax.map(first, (jnp.arange(0, n2, width1), jnp.asarray(exponents)))
    y = y.transpose(1, 0, 2, 3).reshape(_K2, n2, n1)

    def second(start: jax.Array) -> jax.Array:
        scale = _after(_outer.function(factor.rows, columns(factor.columns, start, width2))) if factor else None
        done: jax.Array = _second.function(_before(columns(y, start, width2)), plan.roots2, scale)
        return done

    z: jax.Array = lax.map(second, jnp.arange(0, n1, width2))
    return z.transpose(1, 2, 0, 3).reshape(_K2, n1 * n2)


@kernel()
def _product(x: jax.Array, y: jax.Array) -> jax.Array:
    return FR.mul(x.astype(jnp.float64), y.astype(jnp.float64)).astype(jnp.float32)


@kernel()
def _difference(x: jax.Array, y: jax.Array) -> jax.Array:
    return FR.red(x.astype(jnp.float64) - y.astype(jnp.float64)).astype(jnp.float32)

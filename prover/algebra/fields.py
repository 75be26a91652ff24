"""The fields Fr (scalars, 11 + 11 primes) and Fp (coordinates, 16 + 16): bytes to residues and back, and arithmetic
on arrays.

Bytes are canonical little-endian, uint8[n, size]. Residues are float32[2k, n] in Montgomery form, residue-major; the
host functions here take and give numpy arrays of any n and work in tiles of one shape, so that every length shares
one program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
import numpy.typing as npt

from prover.algebra import constants, limbs
from prover.algebra.kernels import Kernel, Residues, in_threads, kernel, tiles
from prover.algebra.limbs import Bytes
from prover.algebra.rns import Floats, Rns
from prover.errors import InvalidInput

Bools = npt.NDArray[np.bool_]


class NonCanonical(InvalidInput):
    """A field element is not smaller than its modulus."""

    code = "non_canonical_field_element"


class Field(Rns):
    """A prime field: `Rns` with bytes of `size` octets. Compared and hashed by identity, so it can name a program."""

    def __init__(self, name: str, p: int, k: int, size: int) -> None:
        super().__init__(p, k)
        self.name, self.size = name, size

    def __repr__(self) -> str:
        return f"Field({self.name})"

    # bytes

    def encode(self, data: Bytes, threads: int = 1) -> Residues:
        """Canonical bytes uint8[n, size] -> Montgomery residues float32[2k, n]. The bytes are not checked."""
        return _tiled(_encode, self, [limbs.from_bytes(data)], 2 * self.k, threads, axes=[0])

    def decode(self, residues: npt.ArrayLike, threads: int = 1) -> Bytes:
        """Montgomery residues [2k, n] below 256 p in size -> canonical bytes uint8[n, size]."""
        array = np.asarray(residues, np.float32)
        out = np.empty((array.shape[1], self.size), np.uint8)

        def work(start: int) -> None:
            part = array[:, start : start + tiles().field]
            positional = np.asarray(_positional(_pad(part, tiles().field), field=self))[:, : part.shape[1]]
            reduced = limbs.reduce_mod(limbs.wrap(positional.astype(np.int64)), self.p)
            out[start : start + part.shape[1]] = limbs.to_bytes(reduced, self.size)

        in_threads(work, range(0, array.shape[1], tiles().field), threads)
        return out

    def canonical(self, data: Bytes) -> Bools:
        """Which rows of uint8[n, size] are smaller than the modulus."""
        words, below = limbs.from_bytes(data).T, np.zeros(len(data), bool)
        for limb, m in zip(words, limbs.from_int(self.p, len(words)), strict=True):
            below = (limb < m) | ((limb == m) & below)
        return below

    def check_canonical(self, data: Bytes, name: str, first: int = 0) -> None:
        """Raise NonCanonical, naming the first offending row of the field `name`, whose rows count from `first`."""
        good = self.canonical(data)
        if not good.all():
            raise NonCanonical(f"not below the modulus of {self.name}", field=f"{name}[{first + int(np.argmin(good))}]")

    # integers: a few constants, tests

    def encode_ints32(self, values: Sequence[int]) -> Residues:
        """Integers -> Montgomery residues float32[2k, n], one by one."""
        return self.encode_ints(values).astype(np.float32)

    def bytes_of(self, values: Sequence[int]) -> Bytes:
        """Integers mod p -> canonical bytes uint8[n, size]."""
        data = b"".join((v % self.p).to_bytes(self.size, "little") for v in values)
        return np.frombuffer(data, np.uint8).reshape(-1, self.size)

    def ints_of(self, data: Bytes) -> list[int]:
        """uint8[n, size] -> integers."""
        return [int.from_bytes(row.tobytes(), "little") for row in data]

    # arithmetic on host arrays of any length

    def mul_arrays(self, x: Residues, y: Residues, threads: int = 1) -> Residues:
        """Products, element by element."""
        return _tiled(_mul, self, [x, y], 2 * self.k, threads)

    def add_arrays(self, x: Residues, y: Residues, threads: int = 1) -> Residues:
        """Sums, with balanced residues; the bound on the size of the elements adds up (see `rns`)."""
        return _tiled(_add, self, [x, y], 2 * self.k, threads)

    def sub_arrays(self, x: Residues, y: Residues, threads: int = 1) -> Residues:
        return _tiled(_sub, self, [x, y], 2 * self.k, threads)

    def zeros(self, x: Residues) -> Bools:
        """Which elements are zero mod p."""
        result: Bools = _tiled(_is_zero, self, [x], 1, 1)[0] != 0
        return result

    def equal(self, x: Residues, y: Residues) -> Bools:
        """Which elements are equal mod p."""
        return self.zeros(self.sub_arrays(x, y))

    def powers(self, base: int, count: int, first: int = 1, threads: int = 1) -> Residues:
        """first * base^i for i < count, by doubling the length: log2(count) passes."""
        block = min(count, 64)
        known = self.encode_ints32([first * pow(base, i, self.p) % self.p for i in range(block)])
        while known.shape[1] < count:
            step = self.encode_ints32([pow(base, known.shape[1], self.p)])
            more = known[:, : count - known.shape[1]]
            known = np.concatenate([known, self.scale(more, step, threads)], axis=1)
        return known

    def scale(self, x: Residues, factor: Residues, threads: int = 1) -> Residues:
        """Products of every element with one factor [2k, 1]."""
        return _tiled(lambda part, field: _mul(part, factor, field=field), self, [x], 2 * self.k, threads)

    # constants of the kernels

    @cached_property
    def limb_count(self) -> int:
        """Limbs that hold 2^15 p: one more than the bytes take."""
        return self.size // 2 + 1

    @cached_property
    def from_limbs(self) -> Floats:
        """(2k, size / 2): residues of 2^(16 i)."""
        return self.residues([1 << (limbs.BITS * i) for i in range(self.size // 2)])

    @cached_property
    def square_of_m(self) -> Floats:
        return self.residues([self.M * self.M % self.p])

    @cached_property
    def one(self) -> Floats:
        """The integer 1, not in Montgomery form: multiplying by it leaves Montgomery form."""
        return self.residues([1])

    @cached_property
    def crt_weights(self) -> Floats:
        """(k,): what turns residues of base B into the digits of the Chinese remainder sum."""
        scaled = zip(self.b, self.scales[self.k :], strict=True)
        return np.array([float(pow(self.N // b * g, -1, b)) for b, g in scaled])

    @cached_property
    def crt_limbs(self) -> Floats:
        """(limbs, k + 2): limbs of N/b_j, of -N, and of the multiple of p that makes every sum positive."""
        size = (1 << (limbs.BITS * self.limb_count)) - 1
        numbers = [self.N // b for b in self.b] + [-self.N & size, (self.k // 2 + 2) * self.p]
        return np.stack([limbs.from_int(n & size, self.limb_count) for n in numbers], axis=1)

    @cached_property
    def inverse_of_p(self) -> Floats:
        """(2k,): turns the residues of j * p into those of j."""
        scaled = zip(self.moduli, self.scales, strict=True)
        return np.array([float(pow(self.p * g, -1, m)) for m, g in scaled])

    def is_zero(self, x: jax.Array) -> jax.Array:
        """Which elements are 0 mod p, under jit: [2k, ...] -> bool[...]. An element j * p is recognised by j in every
        residue."""
        j = self.red(x * self.inverse_of_p.reshape((-1,) + (1,) * (x.ndim - 1)))
        return jnp.all(j == j[:1], axis=0) & (jnp.abs(j[0]) < 1 << 20)


@kernel("field")
def _encode(words: jax.Array, field: Field) -> jax.Array:
    plain = field.red(jnp.tensordot(field.from_limbs, words.astype(jnp.float64), axes=(1, 1), precision="highest"))
    return field.mul(plain, jnp.asarray(field.square_of_m)).astype(jnp.float32)


@kernel("field")
def _positional(residues: jax.Array, field: Field) -> jax.Array:
    """Limbs, modulo 2^(16 limbs), of an integer congruent to the plain value and in [0, 2^5 p), carries not yet done.

    The reduced value is below (k/2 + 1) p in size, so adding (k/2 + 2) p makes it positive. Limbs are below
    16 * 2^24 * 2^16 = 2^44.
    """
    plain = field.mul(residues.astype(jnp.float64), jnp.asarray(field.one))
    b = slice(field.k, None)
    digits = field.red(plain[b] * field.crt_weights[:, None], b)
    alpha = jnp.round(jnp.sum(digits / field.modulus[b, None], axis=0, keepdims=True))
    terms = jnp.concatenate([digits, alpha, jnp.ones_like(alpha)])
    return jnp.tensordot(field.crt_limbs, terms, axes=1, precision="highest")


@kernel("field")
def _mul(x: jax.Array, y: jax.Array, field: Field) -> jax.Array:
    return field.mul(x.astype(jnp.float64), y.astype(jnp.float64)).astype(jnp.float32)


@kernel("field")
def _add(x: jax.Array, y: jax.Array, field: Field) -> jax.Array:
    return field.red(x.astype(jnp.float64) + y.astype(jnp.float64)).astype(jnp.float32)


@kernel("field")
def _sub(x: jax.Array, y: jax.Array, field: Field) -> jax.Array:
    return field.red(x.astype(jnp.float64) - y.astype(jnp.float64)).astype(jnp.float32)


@kernel("field")
def _is_zero(x: jax.Array, field: Field) -> jax.Array:
    return field.is_zero(x.astype(jnp.float64))[None].astype(jnp.float32)


def _pad(part: npt.NDArray[Any], width: int, axis: int = 1) -> npt.NDArray[Any]:
    """Zeros appended along `axis` up to `width`."""
    missing = width - part.shape[axis]
    if not missing:
        return part
    return np.pad(part, [(0, missing if i == axis else 0) for i in range(part.ndim)])


def _tiled(
    program: Kernel | Callable[..., jax.Array],
    field: Field,
    arrays: Sequence[npt.NDArray[Any]],
    rows: int,
    threads: int,
    axes: Sequence[int] = (1, 1),
) -> Residues:
    """Run `program` over tiles along `axes` of `arrays`; its outputs [rows, tile] side by side."""
    width, count = tiles().field, arrays[0].shape[axes[0]]
    out = np.empty((rows, count), np.float32)

    def work(start: int) -> None:
        part = slice(start, start + width)
        parts = [a[part] if axis == 0 else a[:, part] for a, axis in zip(arrays, axes, strict=False)]
        padded = [_pad(p, width, axis) for p, axis in zip(parts, axes, strict=False)]
        result = np.asarray(program(*padded, field=field))
        out[:, start : start + width] = result[:, : min(width, count - start)]

    in_threads(work, range(0, count, width), threads)
    return out


FR: Final = Field("Fr", constants.R, 11, 32)
FP: Final = Field("Fp", constants.P, 16, 48)

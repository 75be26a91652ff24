"""Filecoin's legacy Poseidon gadget: 3 arity + 4 (7 t + RP) + 1 rows and as many allocations.

Round constants sit behind the S-boxes; every S-box input is allocated, as the combination that the mixes made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prover.circuits.constraint_system import ONE, UNIT, Combination, ConstraintSystem, Variable, combination, single
from prover.filecoin.poseidon import MODULUS, Poseidon, SparseMix, poseidon


@dataclass(frozen=True, slots=True)
class PoseidonHash:
    """Poseidon of `arity` variables with a domain tag, by default that of trees; returns the digest."""

    arity: int
    tag: int | None = None

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable]:
        if len(variables) != self.arity:
            raise ValueError(f"{len(variables)} variables for arity {self.arity}")
        hasher = poseidon(self.arity)
        tag = hasher.tree_tag if self.tag is None else self.tag
        return (_Permutation(cs, hasher).run(tag, variables),)


def num_rows(arity: int) -> int:
    """Rows, and allocations, of the gadget."""
    return 3 * arity + 4 * (7 * (arity + 1) + poseidon(arity).partial_rounds) + 1


class _Permutation:
    """The rounds over a state of combinations; post-round constants are taken in order."""

    def __init__(self, cs: ConstraintSystem, hasher: Poseidon) -> None:
        self._cs = cs
        self._hasher = hasher
        self._post = iter(hasher.compressed[hasher.width :])

    def run(self, tag: int, inputs: Sequence[Variable]) -> Variable:
        hasher, width = self._hasher, self._hasher.width
        state = _mix(hasher.mds, self._first_round(tag, inputs))
        for matrix in (hasher.mds, hasher.mds, hasher.pre_sparse):
            state = _mix(matrix, self._full_round(state))
        for sparse in hasher.sparse:
            state = _sparse_mix(sparse, [self._substitute(state[0], next(self._post)), *state[1:]])
        for _ in range(3):
            state = _mix(hasher.mds, self._full_round(state))
        last = [self._substitute(element, 0) for element in state]
        if next(self._post, None) is not None or len(last) != width:
            raise AssertionError("round constants left over")
        return self._allocate(_mix(hasher.mds, last)[1])

    def _first_round(self, tag: int, inputs: Sequence[Variable]) -> list[Combination]:
        """The tag's S-box is a constant; the inputs are variables already, to which the round key is added."""
        keys = self._hasher.compressed
        state: list[Combination] = [{ONE: (pow(tag + keys[0], 5, MODULUS) + next(self._post)) % MODULUS}]
        for variable, key in zip(inputs, keys[1 : self._hasher.width], strict=True):
            state.append(self._power(combination((variable, 1), (ONE, key)), next(self._post)))
        return state

    def _full_round(self, state: Sequence[Combination]) -> list[Combination]:
        return [self._substitute(element, next(self._post)) for element in state]

    def _substitute(self, element: Combination, post: int) -> Combination:
        """y = element, then y^5 + post."""
        return self._power(single(self._allocate(element)), post)

    def _allocate(self, element: Combination) -> Variable:
        variable = self._cs.alloc()
        self._cs.enforce(element, UNIT, single(variable))
        return variable

    def _power(self, x: Combination, post: int) -> Combination:
        """z with p = x * x, q = p * p, z - post = x * q."""
        cs = self._cs
        p = cs.alloc()
        cs.enforce(x, x, single(p))
        q = cs.alloc()
        cs.enforce(single(p), single(p), single(q))
        z = cs.alloc()
        cs.enforce(x, single(q), combination((z, 1), (ONE, -post)))
        return single(z)


def _mix(matrix: Sequence[Sequence[int]], state: Sequence[Combination]) -> list[Combination]:
    """new_j = sum_i state_i matrix_ij."""
    return [_sum(state, column) for column in zip(*matrix, strict=True)]


def _sparse_mix(mix: SparseMix, state: Sequence[Combination]) -> list[Combination]:
    first = state[0]
    rest = [_sum((element, first), (1, factor)) for element, factor in zip(state[1:], mix.v, strict=True)]
    return [_sum(state, mix.w), *rest]


def _sum(elements: Sequence[Combination], factors: Sequence[int]) -> Combination:
    return combination(
        *(
            (variable, coefficient * factor)
            for element, factor in zip(elements, factors, strict=True)
            for variable, coefficient in element.items()
        )
    )

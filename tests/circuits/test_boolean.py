"""Logic on Booleans: right for every value, folded where something is constant, the rows satisfied by nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product

import pytest

from prover.circuits.boolean import Boolean, choose, conjunction, constant, majority, xor
from prover.circuits.constraint_system import ONE, ConstraintSystem, Variable
from prover.circuits.uint32 import sum_bits
from prover.filecoin.poseidon import MODULUS

Row = tuple[Mapping[Variable, int], ...]
GADGETS: dict[Callable[..., Boolean], Callable[..., int]] = {
    xor: lambda a, b: a ^ b,
    conjunction: lambda a, b: a & b,
    choose: lambda a, b, c: b if a else c,
    majority: lambda a, b, c: int(a + b + c >= 2),
}
ARITY = {xor: 2, conjunction: 2, choose: 3, majority: 3}
#: what an operand may be, as the function from a bit's variable to a Boolean
FORMS: dict[str, Callable[[Variable], Boolean]] = {
    "bit": Boolean,
    "complement": lambda variable: Boolean(variable, True),
    "zero": lambda variable: constant(0),
    "one": lambda variable: constant(1),
}


class Rows(ConstraintSystem):
    """Keeps the rows as combinations."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[Row] = []

    def enforce(self, *row: Mapping[Variable, int]) -> None:
        self.kept.append(row)


def evaluate(combination: Mapping[Variable, int], values: Mapping[Variable, int]) -> int:
    return sum(factor * values[variable] for variable, factor in combination.items()) % MODULUS


def value(bit: Boolean, values: Mapping[Variable, int]) -> int:
    return bit.negated ^ (values[bit.variable] if bit.variable is not None else 0)


def satisfied(rows: list[Row], values: Mapping[Variable, int]) -> bool:
    results = [[evaluate(side, values) for side in row] for row in rows]
    return all(a * b % MODULUS == c for a, b, c in results)


@pytest.mark.parametrize("gadget", GADGETS, ids=lambda gadget: gadget.__name__)
def test_the_rows_leave_only_the_right_value(gadget: Callable[..., Boolean]) -> None:
    arity = ARITY[gadget]
    for forms in product(FORMS, repeat=arity):
        cs = Rows()
        inputs = [cs.alloc_bit() for _ in range(arity)]
        operands = [FORMS[form](variable) for form, variable in zip(forms, inputs, strict=True)]
        result = gadget(cs, *operands)
        fresh = range(arity, cs.num_aux)
        assert len(cs.kept) == len(fresh)
        assert all(cs.bits)
        for bits in product((0, 1), repeat=arity):
            given = {ONE: 1, **dict(zip(inputs, bits, strict=True))}
            candidates = [given | dict(zip(fresh, guess, strict=True)) for guess in product((0, 1), repeat=len(fresh))]
            (values,) = [candidate for candidate in candidates if satisfied(cs.kept, candidate)]
            assert value(result, values) == GADGETS[gadget](*(value(operand, given) for operand in operands)), forms


@pytest.mark.parametrize("gadget", GADGETS, ids=lambda gadget: gadget.__name__)
def test_constants_cost_no_row(gadget: Callable[..., Boolean]) -> None:
    for bits in product((0, 1), repeat=ARITY[gadget]):
        cs = Rows()
        assert gadget(cs, *map(constant, bits)) == constant(GADGETS[gadget](*bits))
        assert cs.num_aux == len(cs.kept) == 0


@pytest.mark.parametrize(("operands", "bits"), [(2, 33), (3, 34), (4, 34), (5, 35), (7, 35), (8, 35)])
def test_bits_of_a_sum(operands: int, bits: int) -> None:
    assert sum_bits(operands) == bits

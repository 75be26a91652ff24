"""A rank-1 constraint system being recorded: variables, combinations, rows and instances of templates.

A variable is an integer: aux j is j, public input i is -1 - i; `ONE` (input 0) is -1. A combination is a dict from
variable to coefficient; coefficients are reduced, and a term with coefficient 0 does not count.

A gadget is a hashable callable of a constraint system and some variables. `instance` runs it: either directly, or, with
templates, from rows that were recorded once for all its uses. Both give the same rows, order and allocations.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Protocol, runtime_checkable

from prover.circuits.recorder import Block, Recording, RowBuffer
from prover.filecoin.poseidon import MODULUS

Variable = int
Combination = Mapping[Variable, int]

ONE: Variable = -1
#: the combination 1
UNIT: Combination = {ONE: 1}
#: the empty combination
ZERO: Combination = {}


@runtime_checkable
class Gadget(Hashable, Protocol):
    """Allocates and constrains; everything that decides its rows takes part in equality and hash."""

    def __call__(self, cs: ConstraintSystem, variables: tuple[Variable, ...]) -> tuple[Variable, ...]: ...


def combination(*terms: tuple[Variable, int]) -> dict[Variable, int]:
    """The sum of terms; coefficients of repeated variables add up."""
    result: dict[Variable, int] = {}
    for variable, coefficient in terms:
        result[variable] = (result.get(variable, 0) + coefficient) % MODULUS
    return result


def single(variable: Variable) -> Combination:
    """The combination 1 * variable."""
    return {variable: 1}


class ConstraintSystem:
    """Records the rows A * B = C in order. With `templates` a gadget is recorded once, and its instances replicated."""

    def __init__(self, *, templates: bool = True, recording: Recording | None = None, parameters: int = 0) -> None:
        """`recording` is shared with the system that this one is a template of; `parameters` are that template's."""
        self.recording = recording or Recording()
        self.num_inputs = 1 + parameters
        #: for each aux 1 when it is a bit, else 0
        self.bits = bytearray()
        self.rows = RowBuffer(self.recording.coefficients)
        self._templates = templates
        self._parameters = parameters

    @property
    def num_constraints(self) -> int:
        return self.rows.num_rows

    @property
    def num_aux(self) -> int:
        return len(self.bits)

    def alloc(self) -> Variable:
        """The next aux variable."""
        self.bits.append(0)
        return len(self.bits) - 1

    def alloc_bit(self) -> Variable:
        """The next aux variable, which the rows to come let be nothing but 0 or 1."""
        self.bits.append(1)
        return len(self.bits) - 1

    def alloc_input(self) -> Variable:
        """The next public input."""
        self.num_inputs += 1
        return -self.num_inputs

    def enforce(self, a: Combination, b: Combination, c: Combination) -> None:
        """The row a * b = c."""
        self.rows.append(a, b, c)

    def note(self, text: str) -> None:
        """What the rows to come are, for messages; `counting.CountingSystem` keeps it."""

    def instance(self, gadget: Gadget, *variables: Variable) -> tuple[Variable, ...]:
        """What `gadget` returns for distinct `variables`, after its rows and allocations."""
        if not self._templates:
            return gadget(self, variables)
        if len(set(variables)) != len(variables):
            raise ValueError("the variables of a template's instance must be distinct")
        return self._place(self._block(gadget, len(variables)), variables)

    def _block(self, gadget: Gadget, parameters: int) -> Block:
        blocks = self.recording.blocks
        if gadget not in blocks:
            system = ConstraintSystem(recording=self.recording, parameters=parameters)
            outputs = gadget(system, tuple(-2 - i for i in range(parameters)))
            blocks[gadget] = system.rows.block(parameters, system.num_inputs, bytes(system.bits), outputs)
        return blocks[gadget]

    def _place(self, block: Block, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        fresh = tuple(-1 - self.num_inputs - i for i in range(block.num_inputs))
        inputs = (ONE, *variables, *fresh)
        self.rows.extend(block, inputs, self.num_aux)
        outputs = tuple(self.num_aux + v if v >= 0 else inputs[-1 - v] for v in block.outputs)
        self.num_inputs += block.num_inputs
        self.bits += block.bits
        return outputs

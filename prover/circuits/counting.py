"""The counts of a circuit, and where its rows are, without writing out its matrices: a template is counted once."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass, field

from prover.circuits.constraint_system import ONE, Combination, ConstraintSystem, Gadget, Variable
from prover.filecoin.poseidon import MODULUS

#: in which of A and B a variable occurs, as bits
_IN_A, _IN_B = 1, 2


@dataclass(slots=True)
class Counts:
    """Rows as synthesised, variables, terms of A, B and C, and how many of the variables occur in A or B."""

    constraints: int = 0
    inputs: int = 0
    aux: int = 0
    nnz_a: int = 0
    nnz_b: int = 0
    nnz_c: int = 0
    a_aux: int = 0
    b_inputs: int = 0
    b_aux: int = 0

    def add(self, other: Counts) -> None:
        for name in Counts.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class Note:
    """What the rows from `row` on are."""

    row: int
    text: str


@dataclass(frozen=True, slots=True)
class _Template:
    """`counts` leaves out ONE and the parameters, whose occurrences are in `given`."""

    counts: Counts
    given: tuple[int, ...]
    outputs: tuple[Variable, ...]
    output_occurs: tuple[int, ...]
    notes: tuple[Note, ...]


@dataclass
class _Shared:
    """What a system shares with its templates."""

    templates: dict[Hashable, _Template] = field(default_factory=dict)
    coefficients: set[int] = field(default_factory=set)


class CountingSystem(ConstraintSystem):
    """Counts what a ConstraintSystem records."""

    def __init__(self, *, shared: _Shared | None = None, parameters: int = 0) -> None:
        """`shared` belongs to the system that this one is a template of; `parameters` are that template's."""
        super().__init__(parameters=parameters)
        self._shared = shared or _Shared()
        self._given = 1 + parameters if shared else 0
        self.counts = Counts(inputs=0 if shared else 1)
        self.notes: list[Note] = []
        self._occurs: dict[Variable, int] = {}

    @property
    def num_constraints(self) -> int:
        return self.counts.constraints

    @property
    def num_aux(self) -> int:
        return self.counts.aux

    @property
    def coefficients(self) -> set[int]:
        """The distinct coefficients, reduced."""
        return self._shared.coefficients

    def alloc(self) -> Variable:
        self.counts.aux += 1
        return self.counts.aux - 1

    def alloc_bit(self) -> Variable:
        return self.alloc()

    def alloc_input(self) -> Variable:
        self.counts.inputs += 1
        return super().alloc_input()

    def enforce(self, a: Combination, b: Combination, c: Combination) -> None:
        counts = self.counts
        counts.constraints += 1
        counts.nnz_a += self._terms(a, _IN_A)
        counts.nnz_b += self._terms(b, _IN_B)
        counts.nnz_c += self._terms(c, 0)

    def note(self, text: str) -> None:
        self.notes.append(Note(self.num_constraints, text))

    def instance(self, gadget: Gadget, *variables: Variable) -> tuple[Variable, ...]:
        known = self._shared.templates
        if gadget not in known:
            known[gadget] = self._template(gadget, len(variables))
        return self._add(known[gadget], variables)

    def place(self, row: int) -> str:
        """What a row is, by the last note before it."""
        at = bisect_right(self.notes, row, key=lambda note: note.row)
        return self.notes[at - 1].text if at else ""

    def _template(self, gadget: Gadget, parameters: int) -> _Template:
        system = CountingSystem(shared=self._shared, parameters=parameters)
        outputs = gadget(system, tuple(-2 - i for i in range(parameters)))
        given = tuple(system._occurs.get(-1 - i, 0) for i in range(1 + parameters))
        return _Template(
            system.counts, given, outputs, tuple(system._occurs.get(v, 0) for v in outputs), tuple(system.notes)
        )

    def _add(self, template: _Template, variables: tuple[Variable, ...]) -> tuple[Variable, ...]:
        first_row, first_aux = self.counts.constraints, self.counts.aux
        inputs = (ONE, *variables, *(-1 - self.num_inputs - i for i in range(template.counts.inputs)))
        outputs = tuple(first_aux + v if v >= 0 else inputs[-1 - v] for v in template.outputs)
        self.counts.add(template.counts)
        self.num_inputs += template.counts.inputs
        for variable, occurs in zip(inputs, template.given, strict=False):
            self._mark(variable, occurs)
        self._occurs.update((v, o) for v, o in zip(outputs, template.output_occurs, strict=True) if v >= first_aux)
        self._note_template(template, first_row)
        return outputs

    def _note_template(self, template: _Template, first_row: int) -> None:
        """The notes of a template below the current one, which goes on after it."""
        if not template.notes:
            return
        here = self.notes[-1].text if self.notes else ""
        start = f"{here}, " if here else ""
        self.notes += (Note(first_row + note.row, start + note.text) for note in template.notes)
        self.note(here)

    def _terms(self, terms: Combination, occurs: int) -> int:
        count = 0
        for variable, coefficient in terms.items():
            reduced = coefficient % MODULUS
            if reduced:
                count += 1
                self._shared.coefficients.add(reduced)
                self._mark(variable, occurs)
        return count

    def _mark(self, variable: Variable, occurs: int) -> None:
        before = self._occurs.get(variable, 0)
        fresh = occurs & ~before
        if not fresh:
            return
        self._occurs[variable] = before | fresh
        if variable >= 0:
            self.counts.a_aux += fresh & _IN_A
            self.counts.b_aux += fresh >> 1
        elif -variable > self._given:
            self.counts.b_inputs += fresh >> 1

"""A proof in two parts: the device phase (transforms, the sums h, l, a, b_g1) and the tail on the CPU (b_g2, assembly).

With z the wires (inputs, then aux), the proof of r and s is
    A = alpha + sum z_j a_j + r delta,    B = beta + sum z_j b_j + s delta (in G2; B1 is the same in G1),
    C = sum h_i tau^i t(tau) / delta + sum z_j l_j + s A + r B1 - r s delta.
The summands of alpha, beta and delta are further bases of the four sums, so that what is left is C's last two products.
"""

from __future__ import annotations

import copy
import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol, TypeVar

import numpy as np

from prover.algebra import kernels, msm
from prover.algebra.constants import R
from prover.algebra.curve import G1, G2
from prover.algebra.kernels import Place, Residues
from prover.algebra.ntt import Domain
from prover.circuits.matrices import Matrices
from prover.groth16 import assembly, proof
from prover.groth16.bases import KeyBases
from prover.groth16.errors import KeyMismatch, ScalarsInvalid
from prover.groth16.keys import Parameters
from prover.groth16.qap import Bytes, Wires, to_bytes
from prover.groth16.tables import TableStore

T = TypeVar("T")
#: stage, and its start and end on the monotonic clock in nanoseconds; called from several threads
Timer = Callable[[str, int, int], None]
#: the stages of the device phase, then those of the tail; l, a and b_g1 run beside transforms and h
DEVICE_STAGES = ("transforms", "h", "l", "a", "b_g1")
TAIL_STAGES = ("b_g2", "assembly")


class Assignment(Protocol):
    """What a circuit's synthesis gives (prover.circuits)."""

    @property
    def inputs(self) -> Bytes:
        """uint8[num_inputs, 32], canonical, little-endian, ONE first."""

    @property
    def aux(self) -> Bytes:
        """uint8[num_aux, 32]."""

    @property
    def a(self) -> Residues:
        """Values of A over all rows, those of the inputs included: Montgomery residues float32[22, num_rows]."""

    @property
    def b(self) -> Residues:
        """The same of B."""

    @property
    def c(self) -> Residues:
        """The same of C."""


class ProvingKey:
    """A circuit's parameters made ready: bases with their tables, the transforms of its domain.

    Its device does the transforms and the sums of the device phase; the tail's sum, and making bases and tables, run on
    the host's. Safe to share between threads: a proof only reads, and `tabulate` replaces whole sections.
    """

    def __init__(
        self,
        parameters: Parameters,
        matrices: Matrices,
        device: Place | None = None,
        *,
        threads: int = 2,
        store: TableStore | None = None,
        table_bytes: int = 0,
    ) -> None:
        """`threads` work on one proof. Bases are mapped from `store`, with the tables that `table_bytes` of memory hold
        where these are there. Raises KeyMismatch."""
        check_fits(parameters, matrices)
        self.wires = Wires.of(matrices)
        self.matrices = matrices
        self.threads = threads
        self._domain = Domain(matrices.domain.bit_length() - 1)
        self._device = device
        self._bases = KeyBases(parameters, matrices, self.wires, store, table_bytes, threads)

    def on(self, device: Place) -> ProvingKey:
        """The same key for another device, or several as one: they share the bases, their tables and the domain's."""
        other = copy.copy(self)
        other._device = device
        return other

    def tabulate(self, table_bytes: int, made: Callable[[float], None] | None = None, threads: int = 1) -> None:
        """Make the tables that `table_bytes` of memory hold, bases included, while proofs go on: each section is faster
        from then on.

        `made` is told the part of the work that is done, from 0 to 1; what it raises ends the work. Nothing is done
        (and told) where there is nothing to make. Raises TablesNotKept.
        """
        self._bases.tabulate(table_bytes, made, threads)

    def refuse_unkept(self) -> None:
        """Raise TablesNotKept where there is a store and bases that were made are not in it."""
        self._bases.refuse_unkept()

    @property
    def tabulated(self) -> bool:
        """Whether any section has tables."""
        return self._bases.tabulated

    @property
    def nbytes(self) -> int:
        """Memory of bases and tables, in bytes; where there is a store, they are mapped from its files."""
        return self._bases.nbytes

    def planned_nbytes(self, table_bytes: int) -> int:
        """Memory of bases and tables once those are made that `table_bytes` hold."""
        return self._bases.planned_nbytes(table_bytes)

    def warm_up(self) -> None:
        """Compile all that a proof needs, so that it retraces nothing; almost nothing of its work is done."""

        def compile_on(device: Place | None, programs: Callable[[], None]) -> Callable[[], None]:
            return lambda: _run_on(device, programs)

        _together(
            {
                "transforms": compile_on(self._device, self._domain.compile),
                "G1": compile_on(self._device, lambda: msm.compile_sums(G1)),
                "G2": compile_on(kernels.host(), lambda: msm.compile_sums(G2)),
            }
        )

    def msm(self, name: str, scalars: Bytes) -> bytes:
        """The sum over the bases of one section and those added to it, uncompressed."""
        device = kernels.host() if name in TAIL_STAGES else self._device
        return _run_on(device, lambda: self._bases[name].msm(scalars, self.threads)).tobytes()

    def quotient(self, assignment: Assignment) -> Bytes:
        """The coefficients of h, uint8[domain - 1, 32]."""
        a, b, c = assignment.a, assignment.b, assignment.c
        return _run_on(self._device, lambda: self._domain.quotient(a, b, c, self.threads))


def check_fits(parameters: Parameters, matrices: Matrices) -> None:
    """Raise KeyMismatch, naming the section, when the key's counts are not this circuit's."""
    wires = Wires.of(matrices)
    wanted = {
        "ic": matrices.num_inputs,
        "h": matrices.domain - 1,
        "l": matrices.num_aux,
        "a": len(wires.a),
        "b_g1": len(wires.b),
        "b_g2": len(wires.b),
    }
    found = {"ic": parameters.vk.num_inputs, **{name: len(points) for name, _, points in parameters.sections()}}
    for name, count in wanted.items():
        if found[name] != count:
            raise KeyMismatch(f"the circuit needs {count} points, the key has {found[name]}", field=name)


class Pending:
    """A proof whose device phase is over. It holds r and s, and shows neither."""

    def __init__(self, key: ProvingKey, sums: dict[str, bytes], wires_b: Bytes, r: int, s: int, timer: Timer | None):
        self._key, self._sums, self._wires_b, self._r, self._s, self._timer = key, sums, wires_b, r, s, timer

    def finish(self) -> bytes:
        """The tail on the CPU: 192 bytes."""
        b_g2 = _timed(
            self._timer, "b_g2", lambda: self._key.msm("b_g2", _with_rows(self._wires_b, _scalars(1, self._s)))
        )
        return _timed(self._timer, "assembly", lambda: self._assemble(b_g2))

    def _assemble(self, b_g2: bytes) -> bytes:
        sums = self._sums
        c = assembly.combine([sums["h"], sums["l"]], [(sums["a"], self._s), (sums["b_g1"], self._r)])
        return proof.encode(sums["a"], b_g2, c)


def start(
    key: ProvingKey, assignment: Assignment, r: int | None = None, s: int | None = None, timer: Timer | None = None
) -> Pending:
    """The device phase; returns when its outputs are ready.

    r and s are fresh random numbers unless given (tests: fixed ones give away the witness). Raises ScalarsInvalid, and
    KeyMismatch for the assignment of another circuit.
    """
    r, s = (_blinding(name, value) for name, value in (("r", r), ("s", s)))
    _require_shape(key.matrices, assignment)
    wires = np.concatenate([assignment.inputs, assignment.aux])
    wires_b = wires[key.wires.b]
    scalars = {
        "l": _with_rows(assignment.aux, _scalars(-r * s)),
        "a": _with_rows(wires[key.wires.a], _scalars(1, r)),
        "b_g1": _with_rows(wires_b, _scalars(1, s)),
    }

    def h() -> bytes:
        coefficients = _timed(timer, "transforms", lambda: key.quotient(assignment))
        return _timed(timer, "h", lambda: key.msm("h", coefficients))

    def sum_of(name: str) -> Callable[[], bytes]:
        return lambda: _timed(timer, name, lambda: key.msm(name, scalars[name]))

    sums = _together({"h": h, **{name: sum_of(name) for name in scalars}})
    return Pending(key, sums, wires_b, r, s, timer)


def _require_shape(matrices: Matrices, assignment: Assignment) -> None:
    found = (
        len(assignment.inputs),
        len(assignment.aux),
        *(part.shape[1] for part in (assignment.a, assignment.b, assignment.c)),
    )
    rows = matrices.num_rows
    if found != (matrices.num_inputs, matrices.num_aux, rows, rows, rows):
        raise KeyMismatch(f"the assignment is of another circuit: inputs, aux and rows {found}", field="assignment")


def _together(stages: dict[str, Callable[[], T]]) -> dict[str, T]:
    """Run the stages side by side: while one sorts on the host, others keep the device and both cores busy."""
    with ThreadPoolExecutor(len(stages), thread_name_prefix="stage") as pool:
        running: dict[str, Future[T]] = {name: pool.submit(stage) for name, stage in stages.items()}
        return {name: future.result() for name, future in running.items()}


def _run_on(device: Place | None, work: Callable[[], T]) -> T:
    with kernels.on(device):
        return work()


def _timed(timer: Timer | None, stage: str, work: Callable[[], T]) -> T:
    began = time.monotonic_ns()
    result = work()
    if timer:
        timer(stage, began, time.monotonic_ns())
    return result


def _blinding(name: str, value: int | None) -> int:
    if value is None:
        return secrets.randbelow(R)
    if not 0 <= value < R:
        raise ScalarsInvalid("must be between 0 and r - 1", field=name)
    return value


def _scalars(*values: int) -> list[bytes]:
    return [row.tobytes() for row in to_bytes([value % R for value in values])]


def _with_rows(rows: Bytes, further: list[bytes]) -> Bytes:
    """uint8[n, size] with further rows behind it."""
    return np.concatenate([rows, *(np.frombuffer(row, dtype=np.uint8)[None] for row in further)])

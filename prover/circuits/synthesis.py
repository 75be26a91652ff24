"""From an instance to the assignment: a circuit is recorded once, a job computes its witness and three products."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from prover.algebra import kernels
from prover.algebra.kernels import Residues
from prover.circuits import cache, definitions
from prover.circuits.definitions import describe_row, record
from prover.circuits.errors import UnsatisfiedConstraint
from prover.circuits.evaluation import Evaluator
from prover.circuits.matrices import Matrices
from prover.circuits.values import Witness
from prover.filecoin.porep import PorepInstance
from prover.filecoin.post import PostInstance
from prover.filecoin.shapes import CircuitShape
from prover.filecoin.update import UpdateInstance

Instance = PostInstance | PorepInstance | UpdateInstance


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the prover needs of one circuit, satisfied.

    `inputs` uint8[num_inputs, 32] (ONE first) and `aux` uint8[num_aux, 32], canonical; `a`, `b`, `c` residues
    float32[22, num_rows], the rows of the inputs included.
    """

    inputs: NDArray[np.uint8]
    aux: NDArray[np.uint8]
    a: Residues
    b: Residues
    c: Residues


class Circuit:
    """A circuit of one shape, ready to synthesise. Immutable, safe to share between threads.

    Its programs run on the host's device, so that no proving device works for a synthesis.
    """

    def __init__(self, shape: CircuitShape, matrices: Matrices) -> None:
        self.shape = shape
        self.matrices = matrices
        with kernels.on(kernels.host()):
            self._evaluator = Evaluator(matrices)

    @classmethod
    def load(cls, shape: CircuitShape, cache_dir: Path | None) -> Circuit:
        """The circuit from its file in `cache_dir`, recorded (and kept there) when there is no sound one."""
        if cache_dir is None:
            return cls(shape, record(shape))
        path = cache_dir / f"{shape.cache_name}.r1cs"
        return cls(shape, cache.load_or_record(path, shape.identifier, lambda: record(shape)))

    def compile(self) -> None:
        """Compiles, or reads from JAX's cache, every program of a synthesis, and makes the constants of its hashes;
        else the first synthesis does."""
        definitions.prepare(self.shape)
        columns = np.zeros((self.matrices.num_columns, 32), np.uint8)
        with kernels.on(kernels.host()):
            self._evaluator.evaluate(columns)

    def synthesize(self, instance: Instance, threads: int = 1) -> Assignment:
        """The assignment of an instance. Raises InstanceMismatch, UnsatisfiedConstraint."""
        return self.assign(definitions.witness(self.shape, instance), threads)

    def assign(self, witness: Witness, threads: int = 1) -> Assignment:
        """The assignment of a witness. Raises UnsatisfiedConstraint, which names the first bad row and its place."""
        with kernels.on(kernels.host()):
            a, b, c, wrong = self._evaluator.evaluate(witness.columns, threads)
        if len(wrong):
            row = int(wrong[0])
            raise UnsatisfiedConstraint(row, describe_row(self.shape, row), len(wrong))
        return Assignment(witness.inputs, witness.aux, a, b, c)

"""The Rust prover's own vectors: a, b, c from the recorded matrices, after each transform, and h, digest by digest."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from prover.algebra.fields import FR
from prover.algebra.kernels import Residues
from prover.algebra.ntt import Domain
from prover.algebra.sparse import SparseMatrix

DATA = Path(__file__).parent.parent / "data" / "2k"
LARGE = Path(__file__).parents[3] / "shared" / "vectors" / "2k"


def digest(data: npt.NDArray[np.uint8]) -> str:
    return hashlib.sha256(np.ascontiguousarray(data).tobytes()).hexdigest()


def evaluations(dump: Any) -> dict[str, Residues]:
    """a, b, c over the recorded rows and the rows x * 0 = 0 that the prover appends for the inputs."""
    witness = FR.encode(np.concatenate([dump["inputs"], dump["aux"]]))
    inputs = witness[:, : int(dump["num_inputs"])]
    tails = {"A": inputs, "B": np.zeros_like(inputs), "C": np.zeros_like(inputs)}
    return {
        name.lower(): np.concatenate([matrix(dump, name).product(witness, threads=2), tail], axis=1)
        for name, tail in tails.items()
    }


def matrix(dump: Any, name: str) -> SparseMatrix:
    return SparseMatrix(dump[f"{name}_indptr"], dump[f"{name}_col"], dump[f"{name}_coef"], dump["coefs"])


def dump_of(circuit: str) -> Path:
    """The committed dump, or the large one beside the project."""
    for folder in (DATA, LARGE):
        if (folder / f"{circuit}.npz").exists():
            return folder / f"{circuit}.npz"
    pytest.skip(f"needs the large vectors: {circuit}.npz")


@pytest.mark.parametrize("circuit", ["tiny", "window", pytest.param("winning", marks=pytest.mark.vectors)])
def test_every_vector_of_the_quotient_is_the_rust_provers(circuit: str) -> None:
    expected = json.loads((DATA / f"{circuit}.poly.json").read_text())
    with np.load(dump_of(circuit), allow_pickle=False) as dump:
        vectors = evaluations(dump)
    domain = Domain(expected["domain"].bit_length() - 1)
    for name, values in vectors.items():
        assert values.shape[1] == expected["rows_with_input_rows"]
        assert digest(FR.decode(values, threads=2)) == expected[f"{name}_sha256"]
        coefficients = domain.ifft(values)
        assert digest(FR.decode(coefficients, threads=2)) == expected[f"{name}_after_ifft_sha256"]
        assert (
            digest(FR.decode(domain.coset_fft(coefficients), threads=2)) == expected[f"{name}_after_coset_fft_sha256"]
        )
    h = domain.quotient(vectors["a"], vectors["b"], vectors["c"], threads=2)
    assert digest(h) == expected["h_sha256_of_first_m_minus_1"]
    assert [f"{v:064x}" for v in FR.ints_of(h[:3])] == expected["h_first_3"]

"""The trusted set-up: parameters of a circuit from five secret scalars, as bellman makes them.

Who knows the scalars can forge proofs, so keys made here are local: for tests and test networks, not for the chain.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np

from prover.algebra import multiples
from prover.algebra.constants import R
from prover.algebra.curve import G1, G2, Group
from prover.circuits.matrices import Matrices
from prover.groth16.errors import ScalarsInvalid, UnconstrainedWire
from prover.groth16.keys import Parameters, VerifyingKey
from prover.groth16.qap import Bytes, Evaluations, Wires, evaluate, power_series, to_bytes

Progress = Callable[[str, float], None]
Multiples = Callable[[Group, Bytes], Bytes]
_CHUNK = 1 << 15  # points between two reports of progress
#: what a point of G2 costs, in points of G1; for the progress only
_G2_COST = 3


@dataclass(frozen=True, repr=False)
class Scalars:
    """The secrets of a set-up, integers mod r, none of them 0. Never logged or stored: they have no repr."""

    alpha: int
    beta: int
    gamma: int
    delta: int
    tau: int

    def __post_init__(self) -> None:
        for item in fields(self):
            if not 0 < getattr(self, item.name) < R:
                raise ScalarsInvalid("must be between 1 and r - 1", field=item.name)

    @classmethod
    def random(cls) -> Scalars:
        """Fresh ones from the operating system."""
        return cls(*(1 + secrets.randbelow(R - 1) for _ in fields(cls)))

    @classmethod
    def from_hex(cls, values: Mapping[str, object]) -> Scalars:
        """From big-endian hex, as `scalars` of a set-up vector has them. ScalarsInvalid names what is wrong."""
        names = [item.name for item in fields(cls)]
        if not isinstance(values, Mapping) or set(values) != set(names):
            raise ScalarsInvalid(f"the scalars are {', '.join(names)}, no more and no less", field="scalars")
        return cls(**{name: _from_hex(name, values[name]) for name in names})


def _from_hex(name: str, text: object) -> int:
    try:
        return int.from_bytes(bytes.fromhex(str(text)), "big")
    except ValueError:
        raise ScalarsInvalid("not hexadecimal", field=name) from None


def setup(
    matrices: Matrices,
    scalars: Scalars | None = None,
    progress: Progress | None = None,
    *,
    threads: int = 2,
    of_generator: Multiples | None = None,
) -> Parameters:
    """The parameters of a circuit; fresh scalars unless some are given (tests).

    `progress` gets the name of the section and the fraction of the whole. `of_generator(group, scalars uint8[n, 32])`
    gives the multiples of the standard generator, in the bytes of a key file. Raises UnconstrainedWire.
    """
    report = progress or _silent
    report("polynomials", 0.0)
    with ThreadPoolExecutor(threads, thread_name_prefix="setup") as pool:
        make = of_generator or _with_programs(pool)
        wanted = _sections(matrices, scalars or Scalars.random())
        points = _made(pool, make, wanted, report)
    report("done", 1.0)
    return _assemble(points)


def _with_programs(pool: ThreadPoolExecutor) -> Multiples:
    """The multiples on one thread each; their programs are compiled, or loaded, while the scalars are computed."""
    for group in (G2, G1):
        pool.submit(multiples.of_generator, group, to_bytes([1]))
    return multiples.of_generator


def _made(
    pool: ThreadPoolExecutor, make: Multiples, wanted: dict[str, tuple[Group, list[int]]], report: Progress
) -> dict[str, Bytes]:
    """The points of every section, a piece a thread: the dear ones of G2 first, so that no thread is left alone."""
    pieces = sorted(_chunks(wanted), key=lambda piece: piece[1] is G1)
    running = [(*piece, pool.submit(make, piece[1], to_bytes(piece[2]))) for piece in pieces]
    points: dict[str, list[Bytes]] = {name: [] for name in wanted}
    total, done = sum(_cost(group) * len(values) for group, values in wanted.values()), 0
    for name, group, part, made in running:
        report(name, done / total)
        points[name].append(made.result())
        done += _cost(group) * len(part)
    return {name: np.concatenate(parts) for name, parts in points.items()}


def _silent(section: str, fraction: float) -> None:
    """No progress wanted."""


def _cost(group: Group) -> int:
    return _G2_COST if group is G2 else 1


def _chunks(wanted: dict[str, tuple[Group, list[int]]]) -> Iterator[tuple[str, Group, list[int]]]:
    """The sections' scalars in pieces between which progress is told; at least one piece a section."""
    for name, (group, values) in wanted.items():
        for start in range(0, max(1, len(values)), _CHUNK):
            yield name, group, values[start : start + _CHUNK]


def _sections(matrices: Matrices, secret: Scalars) -> dict[str, tuple[Group, list[int]]]:
    """The scalar of every point: first the verifying key's heads in G1 and G2, then ic, then the sections."""
    at_tau = evaluate(matrices, secret.tau)
    wires = Wires.of(matrices)
    n, delta = matrices.num_inputs, pow(secret.delta, -1, R)
    b = [at_tau.v[i] for i in wires.b.tolist()]
    return {
        "head_g1": (G1, [secret.alpha, secret.beta, secret.delta]),
        "head_g2": (G2, [secret.beta, secret.gamma, secret.delta]),
        "ic": (G1, _combined(at_tau, secret, pow(secret.gamma, -1, R), 0, n)),
        "h": (G1, power_series(at_tau.vanishing * delta % R, secret.tau, matrices.domain - 1)),
        "l": (G1, _combined(at_tau, secret, delta, n, matrices.num_columns)),
        "a": (G1, [at_tau.u[i] for i in wires.a.tolist()]),
        "b_g1": (G1, b),
        "b_g2": (G2, b),
    }


def _combined(at_tau: Evaluations, secret: Scalars, factor: int, start: int, end: int) -> list[int]:
    """(beta u_j + alpha v_j + w_j) * factor of the wires start..end. A wire without any gives UnconstrainedWire."""
    beta, alpha = secret.beta, secret.alpha
    polynomials = zip(at_tau.u[start:end], at_tau.v[start:end], at_tau.w[start:end], strict=True)
    values = [(beta * u + alpha * v + w) * factor % R for u, v, w in polynomials]
    if 0 in values:
        raise UnconstrainedWire(f"wire {start + values.index(0)} is in no constraint")
    return values


def _assemble(points: dict[str, Bytes]) -> Parameters:
    alpha_g1, beta_g1, delta_g1 = (row.tobytes() for row in points["head_g1"])
    beta_g2, gamma_g2, delta_g2 = (row.tobytes() for row in points["head_g2"])
    vk = VerifyingKey(alpha_g1, beta_g1, beta_g2, gamma_g2, delta_g1, delta_g2, points["ic"])
    return Parameters(vk, points["h"], points["l"], points["a"], points["b_g1"], points["b_g2"])

"""The set-up gives the Rust stack's parameters byte for byte, and the textbook's points for small circuits."""

from __future__ import annotations

import io
import re
from hashlib import sha256

import pytest

from prover.algebra.constants import R
from prover.algebra.curve import G2
from prover.circuits.matrices import Matrices
from prover.groth16.errors import ScalarsInvalid, UnconstrainedWire
from prover.groth16.keys import Parameters
from prover.groth16.qap import Wires, evaluate, power_series, to_bytes
from prover.groth16.setup import Scalars, setup
from prover.reference import groth16 as textbook
from tests.groth16 import toy
from tests.groth16.arkworks import by_arkworks
from tests.groth16.vectors import load, parameters, recorded

SECRET = textbook.Secrets(11, 12, 13, 14, 15)


def scalars_of(secret: textbook.Secrets) -> Scalars:
    return Scalars(secret.alpha, secret.beta, secret.gamma, secret.delta, secret.tau)


def whole(parameters: Parameters) -> bytes:
    out = io.BytesIO()
    parameters.write_to(out)
    return out.getvalue()


def test_tinys_parameters_are_those_of_the_rust_stack() -> None:
    made = setup(recorded("tiny"), Scalars.from_hex(load("tiny.setup.json")["scalars"]))
    assert whole(made) == whole(parameters("tiny"))


@pytest.mark.parametrize("kind", ["window", pytest.param("winning", marks=pytest.mark.acceptance)])
def test_the_parameters_are_those_of_the_rust_stack(kind: str) -> None:
    published, made = load(f"{kind}.setup.json"), parameters(kind)
    for name, _, points in made.sections():
        assert sha256(points.tobytes()).hexdigest() == published["sections"][name]["sha256"], name
    data = whole(made)
    assert len(data) == published["params_size"]
    assert sha256(data).hexdigest() == published["params_sha256"]


def test_the_two_variable_circuit_has_2136_bytes() -> None:
    """Published: vk 1060, then h 3, l 2, a 4 - no point for the wire outside A -, b_g1 1, b_g2 1."""
    circuit, _ = toy.product()
    made = setup(toy.matrices(circuit), scalars_of(SECRET), of_generator=by_arkworks)
    assert {name: len(points) for name, _, points in made.sections()} == {
        "h": 3, "l": 2, "a": 3, "b_g1": 1, "b_g2": 1,
    }  # fmt: skip
    assert len(whole(made)) == made.size == 2136


@pytest.mark.parametrize("rows", [1, 5, 9])
def test_small_circuits_have_the_textbooks_polynomials(rows: int) -> None:
    circuit, _ = toy.chain(rows, seed=rows)
    full = circuit.with_input_rows()
    points = textbook.domain(len(full.a))
    at_tau = evaluate(toy.matrices(circuit), SECRET.tau)
    for ours, matrix in ((at_tau.u, full.a), (at_tau.v, full.b), (at_tau.w, full.c)):
        padded = [*matrix, *[{}] * (len(points) - len(matrix))]
        for wire in range(circuit.num_wires):
            polynomial = textbook.interpolate(points, [row.get(wire, 0) for row in padded])
            assert ours[wire] == textbook.at(polynomial, SECRET.tau)
    assert at_tau.vanishing == (pow(SECRET.tau, len(points), R) - 1) % R


def test_points_at_infinity_are_left_out_where_a_wire_is_not_in_the_matrix() -> None:
    circuit, _ = toy.chain(9, seed=3)
    matrices = toy.matrices(circuit)
    wires = Wires.of(matrices)
    in_b = sorted({wire for row in circuit.b for wire in row})
    assert wires.b.tolist() == in_b
    assert len(in_b) < circuit.num_wires
    at_tau = evaluate(matrices, SECRET.tau)
    assert [j for j, v in enumerate(at_tau.v) if v] == in_b
    made = setup(matrices, scalars_of(SECRET), of_generator=by_arkworks)
    assert made.b_g2.tobytes() == by_arkworks(G2, to_bytes([at_tau.v[j] for j in in_b])).tobytes()
    made.check()


def test_both_libraries_make_the_same_parameters() -> None:
    circuit, _ = toy.chain(12, seed=12)
    ours = setup(toy.matrices(circuit), scalars_of(SECRET))
    theirs = setup(toy.matrices(circuit), scalars_of(SECRET), of_generator=by_arkworks)
    assert whole(ours) == whole(theirs)


def test_fresh_scalars_differ_and_never_show() -> None:
    first, second = Scalars.random(), Scalars.random()
    assert first != second
    # no more than the address of the object
    assert re.fullmatch(r"<\S*Scalars object at 0x[0-9a-f]{1,16}>", repr(first))
    assert str(first) == repr(first)


def test_two_set_ups_of_a_circuit_differ() -> None:
    circuit, _ = toy.product()
    made = [setup(toy.matrices(circuit), of_generator=by_arkworks) for _ in range(2)]
    assert made[0].vk.alpha_g1 != made[1].vk.alpha_g1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"tau": "00"}, "tau"),
        ({"delta": f"{R:x}"}, "delta"),
        ({"beta": "no hex"}, "beta"),
        ({"extra": "01"}, "scalars"),
        ({"alpha": None}, "alpha"),
    ],
)
def test_scalars_from_a_file_are_checked_by_name(change: dict[str, object], field: str) -> None:
    good = load("tiny.setup.json")["scalars"]
    with pytest.raises(ScalarsInvalid) as caught:
        Scalars.from_hex({**good, **change})
    assert caught.value.field == field


def test_tau_in_the_domain_is_refused() -> None:
    circuit, _ = toy.product()
    with pytest.raises(ScalarsInvalid) as caught:
        evaluate(toy.matrices(circuit), pow(7, (R - 1) // 4, R))
    assert caught.value.field == "tau"


def test_a_wire_without_constraint_is_refused_and_named() -> None:
    circuit, _ = toy.product()
    loose = textbook.Circuit(2, 5, circuit.a, circuit.b, circuit.c)
    with pytest.raises(UnconstrainedWire, match="wire 4"):
        setup(toy.matrices(loose), scalars_of(SECRET), of_generator=by_arkworks)


def test_progress_names_each_section_and_rises_to_one() -> None:
    circuit, _ = toy.product()
    seen: list[tuple[str, float]] = []
    setup(toy.matrices(circuit), scalars_of(SECRET), lambda *step: seen.append(step), of_generator=by_arkworks)
    fractions = [fraction for _, fraction in seen]
    assert fractions == sorted(fractions) and fractions[-1] == 1.0
    assert {"polynomials", "h", "l", "a", "b_g1", "b_g2"} <= {name for name, _ in seen}


def test_a_power_series_is_what_it_says() -> None:
    assert power_series(3, 5, 4) == [3, 15, 75, 375]
    assert power_series(3, 5, 0) == []


def test_the_matrices_of_the_toy_say_what_the_rows_say() -> None:
    circuit, wires = toy.chain(6, seed=1)
    m: Matrices = toy.matrices(circuit)
    assert (m.num_constraints, m.num_rows, m.domain) == (6, 9, 16)
    assert all(
        toy.value(a, wires) * toy.value(b, wires) % R == toy.value(c, wires)
        for a, b, c in zip(circuit.a, circuit.b, circuit.c, strict=True)
    )

"""The witness equals the Rust stack's, value by value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from prover.circuits.digest import Digest, elements_digest
from prover.circuits.errors import InstanceMismatch
from prover.circuits.values import Witness, insertion_values
from prover.circuits.witness import fallback_post_witness, path_witness
from prover.filecoin.poseidon import GENERATION_TAG, poseidon
from prover.filecoin.post import PostInstance
from prover.filecoin.vanilla import PathElement
from tests.circuits.instances import leaves_of_gadget, merkle_path, vector_instance
from tests.circuits.vectors import GADGETS, POST, SHAPES, large, read_dump, read_json


def elements(values: list[int]) -> np.ndarray:
    return np.frombuffer(b"".join(value.to_bytes(32, "little") for value in values), np.uint8).reshape(-1, 32)


@pytest.mark.parametrize("arity", [2, 4, 8])
def test_insertion_vectors(arity: int) -> None:
    vector, dump = read_json(GADGETS / f"insert{arity}.json"), read_dump(GADGETS / f"insert{arity}.npz")
    element, index, siblings = vector["element"], vector["index"], vector["elements"]
    bits = [index >> i & 1 for i in range(arity.bit_length() - 1)]
    values = [element, *bits, *siblings, *insertion_values(element, index, siblings, 0, 1)]
    np.testing.assert_array_equal(elements(values), dump["aux"])


@pytest.mark.parametrize("arity", [2, 4, 8])
def test_insertion_ends_in_the_children_at_every_index(arity: int) -> None:
    siblings = list(range(101, 100 + arity))
    for index in range(arity):
        allocated = insertion_values(7, index, siblings, 0, 1)
        expected = [*siblings[:index], 7, *siblings[index:]]
        places = {2: (0, 1), 4: (1, 3, 5, 7), 8: (3, 6, 9, 11, 13, 16, 19, 21)}[arity]
        assert [allocated[i] for i in places] == expected


@pytest.mark.parametrize(
    ("name", "arity", "tag"),
    [*((f"poseidon{arity}", arity, None) for arity in (2, 4, 8, 11)), ("poseidon2_gen_randomness", 2, GENERATION_TAG)],
)
def test_poseidon_vectors(name: str, arity: int, tag: int | None) -> None:
    values = read_json(GADGETS / f"{name}.json")["input_values"]
    trace = poseidon(arity).trace(values, tag)
    np.testing.assert_array_equal(elements([*values, *trace]), read_dump(GADGETS / f"{name}.npz")["aux"])


@pytest.mark.parametrize("public", [False, True], ids=["private", "public"])
@pytest.mark.parametrize(("tree", "arities"), [("8_0_0", (8, 8)), ("8_2_0", (8, 8, 2))])
def test_path_vectors(tree: str, arities: tuple[int, ...], public: bool) -> None:
    name = f"por_poseidon_{tree}_{'public' if public else 'private'}"
    vector, dump = read_json(GADGETS / f"{name}.json"), read_dump(GADGETS / f"{name}.npz")
    path = merkle_path(leaves_of_gadget(vector["leaves"]), arities, vector["challenge"])
    assert path.root == int(vector["root"], 16)
    witness = path_witness(path, root=path.root, public_root=public)
    np.testing.assert_array_equal(witness.aux, dump["aux"])
    np.testing.assert_array_equal(witness.inputs, dump["inputs"])


def assert_equals_json(witness: Witness, name: str) -> None:
    vector = read_json(POST / f"{name}.r1cs.json")
    published = Digest(vector["aux_sha256"], tuple(vector["aux_checkpoints"]))
    assert elements_digest(witness.aux).first_difference(published) is None
    assert [f"{int.from_bytes(value.tobytes(), 'little'):064x}" for value in witness.inputs] == vector["inputs"]


@pytest.mark.parametrize("name", ["tiny", "window", "winning"])
def test_post_vectors(name: str) -> None:
    assert_equals_json(fallback_post_witness(SHAPES[name], vector_instance(name)), name)


@pytest.mark.parametrize("name", ["tiny", "window"])
def test_post_dumps(name: str) -> None:
    witness, dump = fallback_post_witness(SHAPES[name], vector_instance(name)), read_dump(POST / f"{name}.npz")
    np.testing.assert_array_equal(witness.aux, dump["aux"])
    np.testing.assert_array_equal(witness.inputs, dump["inputs"])


@pytest.mark.vectors
def test_winning_dump() -> None:
    dump = read_dump(large("winning.npz"))
    witness = fallback_post_witness(SHAPES["winning"], vector_instance("winning"))
    np.testing.assert_array_equal(witness.aux, dump["aux"])


def test_an_instance_of_another_shape_is_refused() -> None:
    shape, instance = SHAPES["window"], vector_instance("window")
    sector = instance.sectors[0]
    with pytest.raises(InstanceMismatch, match=r"^sectors: 1 given, the circuit has 2"):
        fallback_post_witness(shape, PostInstance(instance.sectors[:1]))
    fewer = PostInstance((replace(sector, paths=sector.paths[:9]), sector))
    with pytest.raises(InstanceMismatch, match=r"^sectors\[0\].paths: 9 given, the circuit has 10"):
        fallback_post_witness(shape, fewer)
    path = replace(sector.paths[3], path=(*sector.paths[3].path, PathElement((1,), 0)))
    higher = PostInstance((sector, replace(sector, paths=(*sector.paths[:3], path, *sector.paths[4:]))))
    with pytest.raises(InstanceMismatch, match=r"^sectors\[1\].paths\[3\]: arities \(8, 8, 2\), not \(8, 8\)"):
        fallback_post_witness(shape, higher)

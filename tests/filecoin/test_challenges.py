"""The challenged nodes of a PoRep against the Rust stack's."""

from __future__ import annotations

import pytest

from prover.filecoin import challenges, fr
from prover.filecoin.graph import StackedGraph
from prover.filecoin.porep import challenged_nodes, public_inputs

from .samples import vectors

POREP = vectors("2k/public.json")["porep"]
REPLICA_ID, COMM_R, SEED, COMM_D = (bytes.fromhex(POREP[name]) for name in ("replica_id", "comm_r", "seed", "comm_d"))


def test_interactive_challenges() -> None:
    assert list(challenges.interactive(REPLICA_ID, SEED, 64, range(2))) == POREP["challenges"]
    assert challenges.interactive(REPLICA_ID, SEED, 64, range(1, 2)) == (POREP["challenges"][1],)


def test_public_inputs() -> None:
    graph = StackedGraph(64, 5)
    nodes = challenged_nodes(graph, REPLICA_ID, COMM_R, SEED, range(2))
    commitments = (fr.from_bytes(value, "value") for value in (REPLICA_ID, COMM_D, COMM_R))
    found = public_inputs(graph, *commitments, nodes)
    assert [f"{value:064x}" for value in found] == POREP["public_inputs"]


def test_synthetic_challenges_of_the_crate() -> None:
    # storage-proofs-porep 19.1.0, test_synth_challenges_against_hardcoded
    replica_id, comm_r = fr.to_bytes(55), fr.to_bytes(101)
    found = [challenges.synthetic_challenge(replica_id, comm_r, 1 << 10, i) for i in range(21)]
    assert found == [
        178, 297, 869, 211, 875, 477, 94, 781, 124, 332, 856, 801, 176, 692, 429, 691, 290, 204, 986, 210, 973,
    ]  # fmt: skip
    picked = challenges.synthetic(replica_id, comm_r, b"\1" * 32, 1 << 10, range(10), count=21)
    assert picked == (176, 781, 801, 986, 290, 211, 692, 856, 986, 332)
    assert challenges.synthetic(replica_id, comm_r, b"\1" * 32, 1 << 10, range(4, 7), count=21) == picked[4:7]


def test_the_seal_proof_says_whether_challenges_are_synthetic() -> None:
    old, new = (challenged_nodes(StackedGraph(64, n), REPLICA_ID, COMM_R, SEED, range(20)) for n in (5, 10))
    assert old != new
    assert new == challenges.synthetic(REPLICA_ID, COMM_R, SEED, 64, range(20))


@pytest.mark.parametrize("nodes", [2, 64, 1 << 30])
def test_node_0_is_never_challenged(nodes: int) -> None:
    found = {
        *challenges.interactive(REPLICA_ID, SEED, nodes, range(300)),
        *challenges.synthetic(REPLICA_ID, COMM_R, SEED, nodes, range(30)),
    }
    assert 1 <= min(found) <= max(found) < nodes

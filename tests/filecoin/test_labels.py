"""Labels and the replica against the Rust stack's vectors."""

from __future__ import annotations

import pytest

from prover.filecoin import fr, labels
from prover.filecoin.graph import StackedGraph
from prover.filecoin.post import prover_id

from .samples import vectors

PUBLIC = vectors("2k/public.json")
SECTOR = PUBLIC["sectors"][0]
REPLICA_ID = bytes.fromhex(SECTOR["replica_id"])


def test_replica_id() -> None:
    ticket, comm_d = bytes.fromhex(SECTOR["ticket"]), bytes.fromhex(SECTOR["comm_d"])
    porep_id = StackedGraph(64, 5).porep_id
    assert labels.replica_id(prover_id(1000), SECTOR["sector_id"], ticket, comm_d, porep_id) == REPLICA_ID


def test_first_labels_of_both_layers() -> None:
    graph, first = StackedGraph(64, 5), SECTOR["labels_first_nodes"]
    layer1 = [bytes.fromhex(label) for label in first["layer1"]]
    for node in range(4):
        parents = [layer1[parent] for parent in graph.drg_parents(node)]
        assert labels.label(REPLICA_ID, 1, node, parents) == layer1[node]
    assert labels.label(REPLICA_ID, 2, 0, ()).hex() == first["layer2"][0]


@pytest.mark.parametrize(("count", "last"), [(6, 0), (14, 8)])
def test_parents_are_repeated_to_37(count: int, last: int) -> None:
    found = labels.expanded(range(count))
    assert len(found) == 37
    assert found[:count] == tuple(range(count)) == found[count : 2 * count]
    assert found[-1] == last


def test_encoding_wraps_around_the_modulus() -> None:
    assert labels.encode(fr.MODULUS - 1, 3) == 2

"""The parents of every node against the published digests of the Rust stack's parent caches."""

from __future__ import annotations

from hashlib import sha256

import pytest

from prover.filecoin.graph import StackedGraph

from .samples import vectors

PUBLIC = vectors("2k/public.json")


@pytest.mark.parametrize(
    ("seal_proof", "digest"),
    [
        (0, "3da49221e2ed55371b86d0bf3d6526fcf128af61bed904f966428db1b531750d"),
        (5, "840057702eea7652cf97e04306c30fe57174714d90de156a25eddd6075c25b97"),
    ],
)
def test_the_parents_cache_of_2kib(seal_proof: int, digest: str) -> None:
    assert sha256(StackedGraph(64, seal_proof).parents_cache()).hexdigest() == digest


@pytest.mark.acceptance
def test_the_parents_cache_of_8mib() -> None:
    digest = sha256(StackedGraph(1 << 18, 6).parents_cache()).hexdigest()
    assert digest == "03cd13565ded97c240a5f52e54295ad127bd0461b57904cb3a4d79b097bbecab"


def test_parents_of_published_nodes() -> None:
    graph = StackedGraph(64, 5)
    parents = PUBLIC["porep"]["parents"]
    assert {node: list(graph.parents(int(node))) for node in parents} == parents
    assert graph.porep_id.hex() == PUBLIC["porep_id"]


def test_the_newer_versions_differ_in_the_place_of_the_node_before() -> None:
    old, new = StackedGraph(64, 0).drg_parents(40), StackedGraph(64, 5).drg_parents(40)
    assert old[-1] == new[0] == 39


@pytest.mark.parametrize("nodes", [64, 128, 512, 1024])
def test_parents_are_nodes_and_drg_parents_come_before(nodes: int) -> None:
    graph = StackedGraph(nodes, 5)
    for node in range(0, nodes, 7):
        assert all(0 <= parent < max(node, 1) for parent in graph.drg_parents(node))
        assert all(0 <= parent < nodes for parent in graph.expander_parents(node))


def test_every_node_is_an_expander_parent_eight_times() -> None:
    graph = StackedGraph(128, 5)  # 8 * 128 is not a power of 4: the cycle walk is needed
    parents = sorted(parent for node in range(128) for parent in graph.expander_parents(node))
    assert parents == sorted(list(range(128)) * 8)

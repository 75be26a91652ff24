"""Merkle paths over field elements: Poseidon trees of every arity, and binary trees of SHA-256."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

from . import fr, poseidon
from .errors import MerklePathMismatch, WrongChallenge
from .vanilla import MerkleProof

NodeHash = Callable[[tuple[int, ...]], int]


def sha256_node(children: tuple[int, ...]) -> int:
    """The parent of two nodes in a binary tree of SHA-256: the digest of their bytes, cleared."""
    left, right = map(fr.to_bytes, children)
    return int.from_bytes(fr.clear(sha256(left + right).digest()), "little")


def nodes_above(proof: MerkleProof, node_hash: NodeHash = poseidon.digest) -> list[int]:
    """The nodes that a path passes, the leaf first, the root last."""
    nodes = [proof.leaf]
    for element in proof.path:
        children = (*element.siblings[: element.index], nodes[-1], *element.siblings[element.index :])
        nodes.append(node_hash(children))
    return nodes


def root_of(leaves: Sequence[int]) -> int:
    """The root of the binary SHA-256 tree over 2^n leaves."""
    row = tuple(leaves)
    while len(row) > 1:
        row = tuple(sha256_node(row[at : at + 2]) for at in range(0, len(row), 2))
    return row[0]


def binary_digits(leaf: int, levels: int) -> tuple[int, ...]:
    """The index of a path at each level of a binary tree, from the leaf to the root."""
    return tuple(leaf >> level & 1 for level in range(levels))


def check_place(proof: MerkleProof, digits: tuple[int, ...], what: str, field: str) -> None:
    """Raises WrongChallenge unless the path has the indexes `digits`; `what` says of which leaf they are."""
    if tuple(element.index for element in proof.path) != digits:
        raise WrongChallenge(f"the path is not that of {what}", field=field)


def check_root(
    proof: MerkleProof, root: int, name: str, field: str, node_hash: NodeHash = poseidon.digest
) -> list[int]:
    """The nodes of the path. Raises MerklePathMismatch unless it declares and leads to `root`, which is `name`."""
    if proof.root != root:
        raise MerklePathMismatch(f"the declared root is not {name}", field=f"{field}.root")
    nodes = nodes_above(proof, node_hash)
    if nodes[-1] != root:
        raise MerklePathMismatch(field=field)
    return nodes

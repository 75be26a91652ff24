"""From a request of any kind to the circuits to prove, and to the public inputs that a verifier derives."""

from __future__ import annotations

from typing import TypeAlias

from . import c1_check, post, update
from .c1_check import PorepPartition
from .post import PostPartition
from .request import PorepRequest, PostRequest, ProofRequest, UpdateRequest
from .update import UpdatePartition

Partition: TypeAlias = PostPartition | PorepPartition | UpdatePartition


def partitions(request: ProofRequest) -> tuple[Partition, ...]:
    """The circuits of a request, in order, after the full check of its vanilla proofs.

    Raises a subclass of InvalidInput that names the place.
    """
    if isinstance(request, PorepRequest):
        return c1_check.partitions(request)
    if isinstance(request, UpdateRequest):
        return update.partitions(request)
    assert isinstance(request, PostRequest)
    return post.partitions(request)


def public_inputs(request: ProofRequest) -> tuple[tuple[int, ...], ...]:
    """The public inputs of each partition (canonical integers, ONE excluded) as a verifier derives them."""
    if isinstance(request, PorepRequest):
        return c1_check.public_inputs(request)
    if isinstance(request, UpdateRequest):
        return update.public_inputs(request)
    assert isinstance(request, PostRequest)
    return post.public_inputs(request)

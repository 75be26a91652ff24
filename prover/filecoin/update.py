"""SnapDeals (EmptySectorUpdate): the partitions to prove of a sector whose data were replaced.

Source: storage-proofs-update 19.1.0.
"""

from __future__ import annotations

from dataclasses import dataclass

from .shapes import UpdateShape
from .vanilla import MerkleProof


@dataclass(frozen=True, slots=True)
class UpdateChallenge:
    """One challenged node: its paths in the old replica, the new data and the new replica."""

    node: int
    old_path: MerkleProof  # to comm_r_last_old
    data_path: MerkleProof  # binary, SHA-256, to comm_d_new; its upper part is the partition's
    new_path: MerkleProof  # to comm_r_last_new


@dataclass(frozen=True, slots=True)
class UpdateInstance:
    """Both sides of an EmptySectorUpdate circuit. Canonical integers."""

    partition: int
    comm_r_old: int
    comm_d_new: int
    comm_r_new: int
    comm_c: int
    comm_r_last_old: int
    comm_r_last_new: int
    apex_leaves: tuple[int, ...]  # of the partition, left to right
    partition_path: tuple[int, ...]  # siblings from the root of the apex leaves up to comm_d_new
    challenges: tuple[UpdateChallenge, ...]


@dataclass(frozen=True, slots=True)
class UpdatePartition:
    """One circuit to prove; `public_inputs`: canonical integers, ONE excluded."""

    index: int
    shape: UpdateShape
    instance: UpdateInstance
    public_inputs: tuple[int, ...]

"""The C1 output of a PoRep: Curio's wrapper, and the JSON in it.

Sources: filecoin-proofs-api 19.1.0 and filecoin-proofs 19.1.0 (SealCommitPhase1Output), storage-proofs-porep 19.1.0
(stacked, vanilla proofs).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from . import fr
from .errors import (
    InvalidBase64,
    RegisteredProofMismatch,
    SectorNumberMismatch,
    SectorSizeMismatch,
    UnsupportedProof,
    WrongProofCount,
)
from .graph import DRG_DEGREE, EXPANSION_DEGREE
from .labels import LABEL_PARENTS
from .shapes import PorepShape, seal_proof_names
from .source import Source, read_json
from .vanilla import PARTS, VARIANTS, MerkleProof, PathParts, binary_parts, path_parts, read_merkle_proof

Written = dict[str, Any]  # an object of the JSON document

_WRAPPER_BRACKETS, _WRAPPER_VALUES = 1, 3
_COLUMNS = 1 + DRG_DEGREE + EXPANSION_DEGREE  # of a challenge
_REGISTERED = re.compile(rb'\s*\{\s*"registered_proof"\s*:\s*"([A-Za-z0-9_]{1,80})"')


@dataclass(frozen=True, slots=True)
class ColumnProof:
    """The labels of a node, layer 1 first, and the path of their hash. Field elements are canonical integers."""

    node: int
    labels: tuple[int, ...]
    path: MerkleProof


@dataclass(frozen=True, slots=True)
class LabelingProof:
    """The 37 labels that a node's label hashes in its layer."""

    parents: tuple[int, ...]
    layer: int
    node: int


@dataclass(frozen=True, slots=True)
class ChallengeProof:
    """The vanilla proof of one challenge, as it is written."""

    data_path: MerkleProof
    replica_path: MerkleProof
    column: ColumnProof
    drg_parents: tuple[ColumnProof, ...]
    expander_parents: tuple[ColumnProof, ...]
    labeling: tuple[LabelingProof, ...]  # a layer each
    encoding: LabelingProof


@dataclass(frozen=True, slots=True)
class C1Output:
    """What a C1 says. `partitions` holds the challenges of each; the five values are 32 bytes each."""

    partitions: tuple[tuple[ChallengeProof, ...], ...]
    comm_r: bytes
    comm_d: bytes
    replica_id: bytes
    seed: bytes
    ticket: bytes


@dataclass(frozen=True, slots=True)
class Wrapped:
    """Curio's wrapper, its base64 decoded: the C1's JSON is not read yet."""

    sector_number: int
    sector_size: int
    inner: bytes


def read_wrapper(data: bytes, field: str) -> Wrapped:
    """What {"SectorNum", "Phase1Out", "SectorSize"} holds. Raises MalformedVanillaProof, InvalidBase64."""
    wrapper = read_json(data, field, brackets=_WRAPPER_BRACKETS, values=_WRAPPER_VALUES)
    inner = wrapper.part("Phase1Out")
    return Wrapped(
        wrapper.part("SectorNum").number(64),
        wrapper.part("SectorSize").number(64),
        decode_base64(inner.text(), inner.place),
    )


def decode_base64(text: str, field: str) -> bytes:
    """The bytes of standard base64. Raises InvalidBase64, which names the first character that is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        wrong = re.search(r"[^A-Za-z0-9+/=]", text)
        where = f"character {wrong.start()} is none of base64" if wrong else str(error)
        raise InvalidBase64(where, field=field) from error


def check_wrapper(wrapped: Wrapped, shape: PorepShape, number: int, sector_number: int, field: str) -> None:
    """Whether the wrapper and the head of the C1 agree with the request: the number of its seal proof and its sector.

    Raises SectorSizeMismatch, SectorNumberMismatch (0: the request names no sector), RegisteredProofMismatch,
    UnsupportedProof.
    """
    if wrapped.sector_size != shape.sector.size:
        text = f"{wrapped.sector_size} bytes, the request has {shape.sector.size}"
        raise SectorSizeMismatch(text, field=f"{field}.SectorSize")
    if sector_number not in (0, wrapped.sector_number):
        text = f"sector {wrapped.sector_number}, the request has {sector_number}"
        raise SectorNumberMismatch(text, field=f"{field}.SectorNum")
    head = _REGISTERED.match(wrapped.inner)
    if head:
        check_registered(head[1].decode(), number, f"{field}.Phase1Out.registered_proof")


def check_registered(name: str, number: int, field: str) -> None:
    """Whether the seal proof `name` is that of `number`. Raises RegisteredProofMismatch, UnsupportedProof."""
    if name not in seal_proof_names(number):
        if "NonInteractive" in name or "NiPoRep" in name:
            raise UnsupportedProof(f"{name} is proved in aggregation, which is not supported", field=field)
        wanted = seal_proof_names(number)[0]
        raise RegisteredProofMismatch(f"{name[:80]}, the request has {number} ({wanted})", field=field)


def read_inner(data: bytes, shape: PorepShape, number: int, field: str) -> C1Output:
    """filecoin-proofs-api's SealCommitPhase1Output in JSON, of the seal proof `number`.

    Raises a subclass of InvalidInput that names the place.
    """
    elements = element_count(shape)
    source = read_json(data, field, brackets=8 * elements, values=40 * elements)
    registered = source.part("registered_proof")
    check_registered(registered.text(), number, registered.place)
    name = f"StackedDrg{shape.sector.name}V1"
    proofs = source.part("vanilla_proofs").variant((name,), name)
    return read_output(source, proofs, shape)


def element_count(shape: PorepShape) -> int:
    """How many values of 32 bytes a C1 holds."""
    path = 2 + sum(arity - 1 for arity in shape.sector.arities)
    data_path = 2 + shape.data_levels
    columns = _COLUMNS * (shape.layers + path)
    challenge = data_path + path + columns + (shape.layers + 1) * LABEL_PARENTS
    return 5 + shape.partitions * shape.challenges * challenge


def write_inner(output: C1Output, shape: PorepShape, number: int) -> bytes:
    """Inverse of `read_inner`, as serde writes it."""
    document = {
        "registered_proof": seal_proof_names(number)[0],
        "vanilla_proofs": {
            f"StackedDrg{shape.sector.name}V1": [
                [_written_challenge(challenge, shape) for challenge in partition] for partition in output.partitions
            ]
        },
        **{name: list(getattr(output, name)) for name in ("comm_r", "comm_d", "replica_id", "seed", "ticket")},
    }
    return json.dumps(document, separators=(",", ":")).encode()


def write_wrapper(inner: bytes, sector_number: int, sector_size: int) -> bytes:
    """Inverse of `read_wrapper`."""
    document = {
        "SectorNum": sector_number,
        "Phase1Out": base64.b64encode(inner).decode(),
        "SectorSize": sector_size,
    }
    return json.dumps(document, separators=(",", ":")).encode()


# -- reading -----------------------------------------------------------------------------------------------------------


def read_output(source: Source, proofs: Source, shape: PorepShape) -> C1Output:
    """A C1's values, `proofs` first, as serde has them in any of its forms.

    comm_r, comm_d and replica_id enter the proof as field elements; they are looked at when it is checked.
    """
    names = ("comm_r", "comm_d", "replica_id", "seed", "ticket")
    return C1Output(_partitions(proofs, shape), *(source.part(name).digest() for name in names))


def _partitions(source: Source, shape: PorepShape) -> tuple[tuple[ChallengeProof, ...], ...]:
    return tuple(
        tuple(_read_challenge(challenge, shape) for challenge in partition.items(shape.challenges, WrongProofCount))
        for partition in source.items(shape.partitions, WrongProofCount)
    )


def _read_challenge(source: Source, shape: PorepShape) -> ChallengeProof:
    tree, binary = path_parts(shape.sector), binary_parts(shape.data_levels)
    data_path = read_merkle_proof(source.part("comm_d_proofs"), binary)
    replica_path = read_merkle_proof(source.part("comm_r_last_proof"), tree)
    columns = source.part("replica_column_proofs")
    column = _read_column(columns.part("c_x"), shape.layers, tree)
    drg, expander = (
        tuple(_read_column(item, shape.layers, tree) for item in columns.part(name).items(degree))
        for name, degree in (("drg_parents", DRG_DEGREE), ("exp_parents", EXPANSION_DEGREE))
    )
    labeling = tuple(_read_labeling(item) for item in source.part("labeling_proofs").items(shape.layers))
    encoding = _read_labeling(source.part("encoding_proof"))
    return ChallengeProof(data_path, replica_path, column, drg, expander, labeling, encoding)


def _read_column(source: Source, layers: int, parts: PathParts) -> ColumnProof:
    column = source.part("column")
    node = column.part("index").number(32)
    labels = column.part("rows").elements(layers)
    return ColumnProof(node, labels, read_merkle_proof(source.part("inclusion_proof"), parts))


def _read_labeling(source: Source) -> LabelingProof:
    parents = source.part("parents").elements(LABEL_PARENTS)
    return LabelingProof(parents, source.part("layer_index").number(32), source.part("node").number(64))


# -- writing -----------------------------------------------------------------------------------------------------------


def _written_challenge(challenge: ChallengeProof, shape: PorepShape) -> Written:
    tree, binary = path_parts(shape.sector), binary_parts(shape.data_levels)
    return {
        "comm_d_proofs": _written_path(challenge.data_path, binary),
        "comm_r_last_proof": _written_path(challenge.replica_path, tree),
        "replica_column_proofs": {
            "c_x": _written_column(challenge.column, tree),
            "drg_parents": [_written_column(column, tree) for column in challenge.drg_parents],
            "exp_parents": [_written_column(column, tree) for column in challenge.expander_parents],
        },
        "labeling_proofs": [_written_labeling(proof) for proof in challenge.labeling],
        "encoding_proof": _written_labeling(challenge.encoding),
    }


def _written_column(proof: ColumnProof, parts: PathParts) -> Written:
    column = {"index": proof.node, "rows": _written_elements(proof.labels), "_h": None}
    return {"column": column, "inclusion_proof": _written_path(proof.path, parts)}


def _written_labeling(proof: LabelingProof) -> Written:
    return {"parents": _written_elements(proof.parents), "layer_index": proof.layer, "node": proof.node}


def _written_path(proof: MerkleProof, parts: PathParts) -> Written:
    """See `vanilla.read_merkle_proof`."""
    ends: Written = {"root": list(fr.to_bytes(proof.root)), "leaf": list(fr.to_bytes(proof.leaf))}
    elements = iter(proof.path)
    paths: list[Written] = [
        {"path": [{"hashes": _written_elements(e.siblings), "index": e.index} for e in islice(elements, len(arities))]}
        for arities in parts
    ]
    if len(parts) == 1:
        return {"data": {"Single": {**ends, "path": paths[0]}}}
    return {"data": {VARIANTS[len(parts) - 1]: {**dict(zip(PARTS, paths, strict=False)), **ends}}}


def _written_elements(values: Sequence[int]) -> list[list[int]]:
    return [list(fr.to_bytes(value)) for value in values]

"""The list of published key files: every circuit with a registered proof is in it, under the name that we compute."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prover.filecoin.published import MAX_MANIFEST, ManifestInvalid, PublishedFile, parse_manifest, published
from prover.filecoin.shapes import REGISTERED_SIZES, ProofKind, circuit_shape, circuit_shapes

ENTRY = {"cid": "Qm" + "a" * 44, "digest": "0" * 32, "sector_size": 2048}
NAME = "v28-anything.params"


def test_exactly_the_circuits_with_registered_proofs_have_published_keys() -> None:
    shapes = [circuit_shape(kind, size) for kind in ProofKind for size in REGISTERED_SIZES]
    names = {f"{shape.key_name}.{end}": shape.sector.size for shape in shapes for end in ("params", "vk")}
    assert {name: file.sector_size for name, file in published().items()} == names
    assert len(names) == 40


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        (ProofKind.POREP, "dc1ade9929ade1708238f155343044ac"),
        (ProofKind.WINDOW_POST, "0e0958009936b9d5e515ec97b8cb792d"),
        (ProofKind.WINNING_POST, "ffd79788d614d27919ae5bd2d94eacb6"),
        (ProofKind.SNAP, "eadad9784969890d30f2749708c79771"),
    ],
)
def test_digests_of_the_2kib_verifying_keys(kind: ProofKind, digest: str) -> None:
    assert published()[f"{circuit_shape(kind, 2048).key_name}.vk"].digest == digest


def test_every_circuit_has_a_name_of_its_own() -> None:
    names = [shape.key_name for shape in circuit_shapes()]
    assert len(names) == len(set(names)) == 40  # 10 sizes of each: 8 KiB has updates alone, 1 GiB all else


def test_a_list_of_another_network_is_read() -> None:
    found = parse_manifest(json.dumps({NAME: ENTRY}).encode())
    assert found == {NAME: PublishedFile(NAME, "Qm" + "a" * 44, "0" * 32, 2048)}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (b"", None),
        (b"[]", None),
        (b"[" * 100_000, None),
        (b" " * (MAX_MANIFEST + 1), None),
        ({"../v28-a.params": ENTRY}, "../v28-a.params"),
        ({"v28-a.meta": ENTRY}, "v28-a.meta"),
        ({NAME: 7}, NAME),
        ({NAME: ENTRY | {"digest": "0" * 31}}, NAME),
        ({NAME: ENTRY | {"cid": "../../x"}}, NAME),
        ({NAME: ENTRY | {"sector_size": -1}}, NAME),
        ({NAME: ENTRY | {"sector_size": "2048"}}, NAME),
    ],
)
def test_anything_else_is_refused(data: Any, field: str | None) -> None:
    with pytest.raises(ManifestInvalid) as caught:
        parse_manifest(data if isinstance(data, bytes) else json.dumps(data).encode())
    assert caught.value.field == field

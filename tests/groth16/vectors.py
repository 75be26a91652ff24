"""The vectors that these tests judge by (tests/data/README.md)."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from prover.groth16.keys import VerifyingKey

DATA = Path(__file__).parent.parent / "data"
KINDS = ("tiny", "window", "winning")


def canon(name: str) -> int:
    """The canonical value of a name: 254 bits of its sha256."""
    digest = int.from_bytes(sha256(f"cuzk test vector {name}".encode()).digest(), "little")
    return digest & ((1 << 254) - 1)


def load(name: str) -> Any:
    return json.loads((DATA / "2k" / name).read_text())


def verifying_key(kind: str) -> VerifyingKey:
    return VerifyingKey.parse((DATA / "2k" / f"{kind}.vk").read_bytes())


def published_proofs(kind: str) -> tuple[list[int], list[bytes]]:
    """Public inputs, and the proofs of r, s = canon and of r = s = 0."""
    vector = load(f"{kind}.proof.json")
    inputs = [int(value, 16) for value in vector["public_inputs"]]
    return inputs, [bytes.fromhex(vector["proof"]), bytes.fromhex(vector["proof_r0_s0"])]

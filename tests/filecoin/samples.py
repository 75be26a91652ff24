"""The published requests and ways to spoil them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from prover.filecoin import request
from prover.filecoin.proto.cuzk_pb2 import SubmitProofRequest

DATA = Path(__file__).parents[1] / "data"
WINDOW, WINNING, DEADLINE = "2k/requests/window-post", "2k/requests/winning-post", "deadline/request"


def read(name: str) -> bytes:
    """A published request in JSON."""
    return (DATA / f"{name}.json").read_bytes()


def vectors(name: str) -> Any:
    """A published JSON file."""
    return json.loads((DATA / name).read_bytes())


def parsed(name: str) -> request.ProofRequest:
    return request.parse_json(read(name))


def message(name: str, **changes: Any) -> SubmitProofRequest:
    """A published request as a message, some of its fields changed; None clears a field."""
    found = json_format.Parse(read(name), SubmitProofRequest())
    for field, value in changes.items():
        found.ClearField(field)
        if isinstance(value, list):
            getattr(found, field).extend(value)
        elif value is not None:
            setattr(found, field, value)
    return found


def changed(name: str, **changes: Any) -> request.ProofRequest:
    """A published request, some of its fields changed, parsed."""
    return request.parse_message(message(name, **changes).SerializeToString())


def patched(proof: bytes, at: int, new: bytes) -> bytes:
    """A vanilla proof with the bytes at `at` replaced."""
    return proof[:at] + new + proof[at + len(new) :]

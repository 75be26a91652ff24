"""The published requests and ways to spoil them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from prover.filecoin import request
from prover.filecoin.proto.cuzk_pb2 import SubmitProofRequest

DATA = Path(__file__).parents[1] / "data"
POREP, SNAP = "2k/requests/porep-c2", "2k/requests/snap-update"
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


def c1_document(name: str = POREP) -> Any:
    """The C1 output of a published request, as its JSON says."""
    return json.loads(base64.b64decode(json.loads(message(name).vanilla_proof)["Phase1Out"]))


def wrapped(document: Any, **changes: Any) -> bytes:
    """A C1 document (or its bytes) in Curio's wrapper, some of whose fields are changed; None leaves one out."""
    inner = document if isinstance(document, bytes) else json.dumps(document, separators=(",", ":")).encode()
    fields = {"SectorNum": 1, "Phase1Out": base64.b64encode(inner).decode(), "SectorSize": 2048} | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None}).encode()


def spoiled_c1(spoil: Callable[[Any], None]) -> request.PorepRequest:
    """The published PoRep request after `spoil` changed its C1 document."""
    document = c1_document()
    spoil(document)
    return changed(POREP, vanilla_proof=wrapped(document))

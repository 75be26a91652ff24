"""Whatever bytes come in, the answer is a valid request or an error of ours; no false proof passes."""

from __future__ import annotations

import base64
import json
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prover.errors import CuzkError, InvalidInput
from prover.filecoin import partitions, post, request, vanilla
from prover.filecoin.proto.cuzk_pb2 import SubmitProofRequest

from .samples import POREP, SNAP, WINDOW, changed, message, parsed, read

BINARY = message(WINDOW).SerializeToString()
PROOFS, SHAPE = parsed(WINDOW).vanilla_proofs, parsed(WINDOW).shape
FIELDS = [field.json_name for field in SubmitProofRequest.DESCRIPTOR.fields]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=64).map(lambda data: base64.b64encode(data).decode())
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def use(data: bytes, *, as_json: bool) -> None:
    """Read and check a request; errors of ours are fine."""
    with suppress(CuzkError):
        found = request.parse_json(data) if as_json else request.parse_message(data)
        partitions.partitions(found)


@quick
@given(st.binary(max_size=300), st.booleans())
def test_any_bytes(data: bytes, as_json: bool) -> None:
    use(data, as_json=as_json)


@quick
@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), VALUES, max_size=8))
def test_any_json_object(fields: dict[str, object]) -> None:
    use(json.dumps(fields).encode(), as_json=True)


@quick
@given(st.sampled_from([WINDOW, POREP, SNAP]), st.dictionaries(st.sampled_from(FIELDS), VALUES, min_size=1, max_size=3))
def test_a_request_with_some_fields_replaced(name: str, fields: dict[str, object]) -> None:
    use(json.dumps(json.loads(read(name)) | fields).encode(), as_json=True)


@settings(quick, max_examples=60)
@given(st.integers(0, len(BINARY) - 1), st.integers(0, len(BINARY)), st.binary(max_size=12))
def test_a_message_with_a_piece_replaced(start: int, size: int, new: bytes) -> None:
    use(BINARY[:start] + new + BINARY[start + size % 64 :], as_json=False)


@settings(quick, max_examples=60)
@given(st.integers(0, len(PROOFS[0]) * 8 - 1), st.integers(0, 1))
def test_no_vanilla_proof_passes_with_a_bit_flipped(bit: int, which: int) -> None:
    spoiled = bytearray(PROOFS[which])
    spoiled[bit // 8] ^= 1 << bit % 8
    proofs = [*PROOFS[:which], bytes(spoiled), *PROOFS[which + 1 :]]
    with pytest.raises(InvalidInput) as caught:
        post.partitions(changed(WINDOW, vanilla_proofs=proofs))
    assert caught.value.field is not None
    assert caught.value.field.startswith("vanilla_proofs[")


@quick
@given(st.binary(max_size=700))
def test_any_vanilla_proof(data: bytes) -> None:
    with pytest.raises(InvalidInput):
        vanilla.read_sector_proof(data, SHAPE, "proof")

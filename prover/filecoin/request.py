"""The request for a proof: cuzk.v1's SubmitProofRequest, read as protobuf or as its JSON mapping, and checked.

Everything outside the vanilla proofs is checked here; `prover.filecoin.post` checks those. The web imports this module:
it is pure Python and starts fast.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from . import fr
from .c1 import Wrapped, check_wrapper, read_wrapper
from .errors import (
    InvalidBase64,
    InvalidLabel,
    InvalidRequest,
    NumberOutOfRange,
    RequestTooLarge,
    TrailingBytes,
    TruncatedVanillaProof,
    UnsupportedProof,
    WrongProofCount,
)
from .partition_proof import partition_proof_size
from .proto.cuzk_pb2 import SubmitProofRequest
from .shapes import (
    REGISTERED_SIZES,
    ApiVersion,
    CircuitShape,
    PorepShape,
    PostShape,
    Priority,
    ProofKind,
    UpdateShape,
    circuit_shape,
    registered_api_version,
)
from .source import without_doubles
from .vanilla import vanilla_size

MAX_REQUEST = 128 << 20  # bytes
MAX_LABEL = 1024  # bytes of UTF-8
MAX_PARTITIONS = 1024  # circuits in one request
MAX_NUMBER = (1 << 63) - 1  # of a miner or sector: the database keeps signed 64-bit numbers
MAX_PARTITION_INDEX = (1 << 31) - 1
MAX_JSON_BRACKETS = 4096  # a request holds one object and one list; each may stand in labels
MAX_JSON_COMMAS = 1 << 20

_BOM = b"\xef\xbb\xbf"  # editors of some systems begin UTF-8 with it
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[ \t\r\n]\0)*\{\0|(?:\0[ \t\r\n])*\0\{")

_KINDS = {1: ProofKind.POREP, 2: ProofKind.SNAP, 3: ProofKind.WINDOW_POST, 4: ProofKind.WINNING_POST}
_DEFAULT_PRIORITY = {ProofKind.WINNING_POST: Priority.CRITICAL, ProofKind.WINDOW_POST: Priority.HIGH}
_PRIORITIES = {priority.value: priority for priority in Priority}
_ID_PREFIX = {
    ProofKind.POREP: "porep",
    ProofKind.SNAP: "snap",
    ProofKind.WINDOW_POST: "wdpost",
    ProofKind.WINNING_POST: "winpost",
}
_COMMITMENTS = frozenset({"comm_r_old", "comm_r_new", "comm_d_new"})
#: the fields that not every kind has
_OWN_FIELDS = frozenset({"vanilla_proof", "vanilla_proofs", "randomness"}) | _COMMITMENTS
_FIELDS_OF = {
    ProofKind.POREP: {"vanilla_proof"},
    ProofKind.SNAP: {"vanilla_proofs"} | _COMMITMENTS,
    ProofKind.WINDOW_POST: {"vanilla_proofs", "randomness"},
    ProofKind.WINNING_POST: {"vanilla_proofs", "randomness"},
}
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")


@dataclass(frozen=True, slots=True)
class ProofRequest(ABC):
    """A request whose fields are valid and agree with each other. The vanilla proofs are not yet read.

    `canonical` is the request as deterministic protobuf, with request id and priority filled in. `digest` identifies
    what is to be proved: the SHA-256 of the same without request id and priority.
    """

    request_id: str
    kind: ProofKind
    shape: CircuitShape
    registered_proof: int | None
    api_version: ApiVersion
    priority: Priority
    miner_id: int
    sector_number: int | None
    partition_index: int  # of the first partition
    canonical: bytes
    digest: bytes

    @property
    def sector_size(self) -> int:
        """Bytes in a sector."""
        return self.shape.sector.size

    @property
    @abstractmethod
    def partition_count(self) -> int:
        """Circuits to prove: each gives 192 bytes."""


@dataclass(frozen=True, slots=True)
class PostRequest(ProofRequest):
    """WindowPoSt or WinningPoSt."""

    shape: PostShape
    vanilla_proofs: tuple[bytes, ...]
    randomness: bytes  # 32, canonical

    @property
    def partition_count(self) -> int:
        """Circuits to prove: each gives 192 bytes."""
        return -(-len(self.vanilla_proofs) // self.shape.vanilla_proofs_per_partition)


@dataclass(frozen=True, slots=True)
class PorepRequest(ProofRequest):
    """PoRep C2."""

    shape: PorepShape
    c1: Wrapped

    @property
    def seal_proof(self) -> int:
        """The number of the RegisteredSealProof."""
        assert self.registered_proof is not None
        return self.registered_proof

    @property
    def partition_count(self) -> int:
        """Circuits to prove: each gives 192 bytes."""
        return self.shape.partitions


@dataclass(frozen=True, slots=True)
class UpdateRequest(ProofRequest):
    """SnapDeals. Commitments are canonical integers."""

    shape: UpdateShape
    vanilla_proofs: tuple[bytes, ...]  # a partition each
    comm_r_old: int
    comm_d_new: int
    comm_r_new: int

    @property
    def partition_count(self) -> int:
        """Circuits to prove: each gives 192 bytes."""
        return self.shape.partitions


def parse_either(data: bytes) -> ProofRequest:
    """The request in either form. Raises a subclass of InvalidInput that names the field."""
    return parse_json(data) if _is_text(data) else parse_message(data)


def parse_json(data: bytes) -> ProofRequest:
    """The request in proto3's JSON mapping. Raises a subclass of InvalidInput that names the field."""
    _check_size(data)
    if _UTF_16.match(data):
        raise InvalidRequest("the file is in UTF-16 or UTF-32; a request in JSON is in UTF-8: save it so")
    data = data.removeprefix(_BOM)
    _check_json_structure(data)
    try:
        fields = json.loads(data.decode(), object_pairs_hook=without_doubles)
        _check_base64(fields)
        message = json_format.ParseDict(fields, SubmitProofRequest())
    except (json_format.ParseError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"the file is no SubmitProofRequest in JSON: {_brief(error)}") from error
    return _checked(message)


def parse_message(data: bytes) -> ProofRequest:
    """The request in protobuf. Raises a subclass of InvalidInput that names the field."""
    _check_size(data)
    try:
        message = SubmitProofRequest.FromString(data)
    except DecodeError as error:
        raise InvalidRequest(f"the bytes are no SubmitProofRequest in protobuf: {_brief(error)}") from error
    message.DiscardUnknownFields()
    return _checked(message)


def _checked(message: SubmitProofRequest) -> ProofRequest:
    kind = _kind(message)
    shape = circuit_shape(kind, message.sector_size)
    api_version = registered_api_version(kind, message.sector_size, message.registered_proof)
    _check_labels(message)
    _check_numbers(message, kind)
    _check_foreign_fields(message, kind)
    own = _own_fields(message, shape)
    priority = _priority(message, kind)
    digest = _digest(message)
    message.request_id = message.request_id or f"{_ID_PREFIX[kind]}-{message.miner_id}-{uuid.uuid4()}"
    message.priority = priority.value  # type: ignore[assignment]  # an enum is an int on the wire
    return _REQUESTS[kind](
        request_id=message.request_id,
        kind=kind,
        shape=shape,
        registered_proof=message.registered_proof if shape.sector.size in REGISTERED_SIZES else None,
        api_version=api_version,
        priority=priority,
        miner_id=message.miner_id,
        sector_number=message.sector_number or None,
        partition_index=message.partition_index,
        canonical=message.SerializeToString(deterministic=True),
        digest=digest,
        **own,
    )


def _own_fields(message: SubmitProofRequest, shape: CircuitShape) -> dict[str, Any]:
    """The fields that only requests of this kind have, checked."""
    if isinstance(shape, PorepShape):
        wrapped = read_wrapper(message.vanilla_proof, "vanilla_proof")
        check_wrapper(wrapped, shape, message.registered_proof, message.sector_number, "vanilla_proof")
        return {"c1": wrapped}
    if isinstance(shape, UpdateShape):
        _check_count(message, shape.partitions, shape.partitions)
        _check_sizes(message, shape, partition_proof_size(shape))
        names = ("comm_r_old", "comm_d_new", "comm_r_new")
        commitments = {name: fr.from_bytes(getattr(message, name), name) for name in names}
        return {"vanilla_proofs": tuple(message.vanilla_proofs), **commitments}
    assert isinstance(shape, PostShape)
    winning = shape.kind is ProofKind.WINNING_POST
    _check_count(message, 1, 1 if winning else MAX_PARTITIONS * shape.vanilla_proofs_per_partition)
    _check_sizes(message, shape, vanilla_size(shape))
    fr.from_bytes(message.randomness, "randomness")
    return {"vanilla_proofs": tuple(message.vanilla_proofs), "randomness": message.randomness}


_REQUESTS: dict[ProofKind, Callable[..., ProofRequest]] = {
    ProofKind.POREP: PorepRequest,
    ProofKind.SNAP: UpdateRequest,
    ProofKind.WINDOW_POST: PostRequest,
    ProofKind.WINNING_POST: PostRequest,
}


def _is_text(data: bytes) -> bool:
    """Whether this is JSON, be its encoding what it may. No message in protobuf begins so: 0x7b, 0xef, 0xfe and 0xff
    would begin a field of a type that it has not, and 0x00 one without number."""
    return data.lstrip()[:1] == b"{" or data.startswith(_BOM) or _UTF_16.match(data) is not None


def _digest(message: SubmitProofRequest) -> bytes:
    """What is to be proved, whoever asks under whatever id and however urgently."""
    request_id = message.request_id
    message.ClearField("request_id")
    message.ClearField("priority")
    digest = hashlib.sha256(message.SerializeToString(deterministic=True)).digest()
    message.request_id = request_id
    return digest


def _kind(message: SubmitProofRequest) -> ProofKind:
    kind = _KINDS.get(message.proof_kind)
    if kind is None:
        raise UnsupportedProof(f"{message.proof_kind} is no kind of proof", field="proof_kind")
    return kind


def _priority(message: SubmitProofRequest, kind: ProofKind) -> Priority:
    """0 asks for the default of the kind; a number that is none counts as NORMAL, as in the original."""
    if not message.priority:
        return _DEFAULT_PRIORITY.get(kind, Priority.NORMAL)
    return _PRIORITIES.get(message.priority, Priority.NORMAL)


def _check_size(data: bytes) -> None:
    if len(data) > MAX_REQUEST:
        raise RequestTooLarge(f"{len(data)} bytes given, {MAX_REQUEST} allowed")
    if not data:
        raise InvalidRequest("the request is empty")


def _check_json_structure(data: bytes) -> None:
    """Refuses what would become very many or deeply nested objects, before anything is built from it."""
    if not re.match(rb"\s*\{", data):
        raise InvalidRequest("the file is no JSON object, hence no SubmitProofRequest")
    if data.count(b"[") + data.count(b"{") > MAX_JSON_BRACKETS:
        raise InvalidRequest(f"more than {MAX_JSON_BRACKETS} objects and lists: this is no SubmitProofRequest")
    if data.count(b",") > MAX_JSON_COMMAS:
        raise InvalidRequest(f"more than {MAX_JSON_COMMAS} values: this is no SubmitProofRequest")


def _check_labels(message: SubmitProofRequest) -> None:
    """Markup is text like any other; a control character would spoil logs, and Postgres keeps no NUL."""
    label = message.request_id
    size = len(label.encode())
    if size > MAX_LABEL:
        raise InvalidLabel(f"{size} bytes given, {MAX_LABEL} allowed", field="request_id")
    hidden = next((at for at, character in enumerate(label) if not character.isprintable()), None)
    if hidden is not None:
        raise InvalidLabel(f"character {hidden} (U+{ord(label[hidden]):04X}) cannot be shown", field="request_id")
    if label != label.strip():
        raise InvalidLabel("begins or ends with a space, which nobody could see", field="request_id")


def _check_numbers(message: SubmitProofRequest, kind: ProofKind) -> None:
    _check_number(message.miner_id, MAX_NUMBER, "miner_id")
    _check_number(message.sector_number, MAX_NUMBER, "sector_number")
    limit = MAX_PARTITION_INDEX - MAX_PARTITIONS if kind is ProofKind.WINDOW_POST else 0
    _check_number(message.partition_index, limit, "partition_index")


def _check_number(value: int, limit: int, field: str) -> None:
    if value > limit:
        raise NumberOutOfRange(f"{value} given, at most {limit} allowed", field=field)


def _check_foreign_fields(message: SubmitProofRequest, kind: ProofKind) -> None:
    for field in sorted(_OWN_FIELDS - _FIELDS_OF[kind]):
        if getattr(message, field):
            raise InvalidRequest("the field belongs to another kind of proof", field=field)


def _check_count(message: SubmitProofRequest, least: int, most: int) -> None:
    count = len(message.vanilla_proofs)
    if not least <= count <= most:
        wanted = f"exactly {most}" if least == most else f"{least} to {most}"
        raise WrongProofCount(f"{count} given, {wanted} allowed", field="vanilla_proofs")


def _check_sizes(message: SubmitProofRequest, shape: CircuitShape, expected: int) -> None:
    for i, proof in enumerate(message.vanilla_proofs):
        if len(proof) != expected:
            error = TruncatedVanillaProof if len(proof) < expected else TrailingBytes
            text = f"{len(proof)} bytes given, {expected} prescribed for {shape.kind} of {shape.sector.name}"
            raise error(text, field=f"vanilla_proofs[{i}]")


def _check_base64(fields: dict[str, Any]) -> None:
    """Raises InvalidBase64 for a text in place of bytes: protobuf would skip what is no base64, and read the rest."""
    for field in SubmitProofRequest.DESCRIPTOR.fields:
        if field.type != FieldDescriptor.TYPE_BYTES:
            continue
        for key in (field.name, field.json_name):
            value = fields.get(key)
            for i, text in enumerate(value if isinstance(value, list) else [value]):
                if isinstance(text, str):
                    _check_base64_text(text, f"{field.name}[{i}]" if isinstance(value, list) else field.name)


def _check_base64_text(text: str, place: str) -> None:
    """Of either alphabet, with or without padding."""
    end = _BASE64.match(text)
    if end is None or end.end() < len(text):
        raise InvalidBase64(f"character {end.end() if end else 0} is none of base64", field=place)
    if len(text.rstrip("=")) % 4 == 1:
        raise InvalidBase64(f"{len(text)} characters are no whole number of bytes", field=place)


def _brief(error: BaseException) -> str:
    """The text of a parser's error without what it quotes of a hostile file."""
    text = "".join(character for character in str(error) if character.isprintable())
    return text if len(text) <= 200 else f"{text[:200]}..."

"""Requests: the published ones are read; each kind of bad one gets its own error, naming field and limit."""

from __future__ import annotations

import json
from typing import Any

import pytest

from prover.errors import CuzkError, InvalidRequest, RequestTooLarge, UnsupportedProof
from prover.filecoin import request
from prover.filecoin.errors import (
    InvalidBase64,
    InvalidLabel,
    NonCanonicalElement,
    NumberOutOfRange,
    RegisteredProofMismatch,
    SectorNumberMismatch,
    TrailingBytes,
    TruncatedVanillaProof,
    UnsupportedSectorSize,
    WrongLength,
    WrongProofCount,
)
from prover.filecoin.fr import MODULUS
from prover.filecoin.partition_proof import partition_proof_size
from prover.filecoin.shapes import ApiVersion, Priority, ProofKind, update_shape

from .samples import DEADLINE, POREP, SNAP, WINDOW, WINNING, changed, message, parsed, read

PROOF = parsed(WINDOW).vanilla_proofs[0]


@pytest.mark.parametrize(
    ("name", "kind", "priority", "version", "registered", "partitions"),
    [
        (WINDOW, ProofKind.WINDOW_POST, Priority.HIGH, ApiVersion.V1_2_0, 10, 1),
        (WINNING, ProofKind.WINNING_POST, Priority.CRITICAL, ApiVersion.V1_0_0, 0, 1),
        (DEADLINE, ProofKind.WINDOW_POST, Priority.HIGH, ApiVersion.V1_2_0, 10, 13),
        (POREP, ProofKind.POREP, Priority.NORMAL, ApiVersion.V1_1_0, 5, 1),
        (SNAP, ProofKind.SNAP, Priority.NORMAL, ApiVersion.V1_1_0, 0, 1),
    ],
)
def test_published_requests(
    name: str, kind: ProofKind, priority: Priority, version: ApiVersion, registered: int, partitions: int
) -> None:
    found = parsed(name)
    assert (found.kind, found.priority, found.api_version) == (kind, priority, version)
    assert (found.registered_proof, found.partition_count) == (registered, partitions)
    assert (found.sector_size, found.miner_id, found.partition_index) == (2048, 1000, 0)
    assert found.request_id == json.loads(read(name))["requestId"]
    assert request.parse_message(found.canonical) == found


def test_field_names_in_snake_case_are_the_same_request() -> None:
    names = {"requestId": "request_id", "vanillaProofs": "vanilla_proofs", "sectorSize": "sector_size"}
    fields = {names.get(name, name): value for name, value in json.loads(read(WINDOW)).items()}
    assert request.parse_json(json.dumps(fields).encode()) == parsed(WINDOW)


def test_each_form_is_known_by_its_bytes() -> None:
    """Some editors begin UTF-8 with a byte order mark."""
    expected = parsed(WINDOW)
    for data in (read(WINDOW), b"\n " + read(WINDOW), b"\xef\xbb\xbf" + read(WINDOW), expected.canonical):
        assert request.parse_either(data) == expected
    assert request.parse_json(b"\xef\xbb\xbf" + read(WINDOW)) == expected


class TestDigest:
    def test_is_the_same_whoever_asks_and_however_urgently(self) -> None:
        digest = parsed(WINDOW).digest
        assert changed(WINDOW, request_id="another").digest == digest
        assert changed(WINDOW, request_id=None).digest == digest
        assert changed(WINDOW, priority=1).digest == digest

    @pytest.mark.parametrize(
        "changes", [{"miner_id": 1001}, {"partition_index": 1}, {"registered_proof": 5}, {"randomness": bytes(32)}]
    )
    def test_differs_with_what_is_proved(self, changes: dict[str, Any]) -> None:
        assert changed(WINDOW, **changes).digest != parsed(WINDOW).digest

    def test_differs_with_one_bit_of_a_vanilla_proof(self) -> None:
        proofs = [PROOF[:100] + bytes([PROOF[100] ^ 1]) + PROOF[101:], *parsed(WINDOW).vanilla_proofs[1:]]
        assert changed(WINDOW, vanilla_proofs=proofs).digest != parsed(WINDOW).digest

    def test_does_not_depend_on_the_order_of_fields_in_the_file(self) -> None:
        fields = json.loads(read(WINDOW))
        backwards = dict(reversed(fields.items()))
        assert request.parse_json(json.dumps(backwards).encode()).canonical == parsed(WINDOW).canonical


class TestDefaults:
    @pytest.mark.parametrize(("name", "priority"), [(WINDOW, Priority.HIGH), (WINNING, Priority.CRITICAL)])
    def test_priority_of_the_kind(self, name: str, priority: Priority) -> None:
        assert changed(name, priority=None).priority is priority

    def test_a_priority_that_is_none_counts_as_normal(self) -> None:
        assert changed(WINDOW, priority=99).priority is Priority.NORMAL

    def test_an_id_is_made_and_kept(self) -> None:
        first, second = changed(WINDOW, request_id=None), changed(WINDOW, request_id=None)
        assert first.request_id.startswith("wdpost-1000-")
        assert first.request_id != second.request_id
        assert request.parse_message(first.canonical).request_id == first.request_id

    def test_winning_of_2kib_is_registered_as_number_0(self) -> None:
        assert changed(WINNING, registered_proof=None) == parsed(WINNING)


class TestNoRequest:
    @pytest.mark.parametrize(
        "data",
        [
            b"",
            b"{",
            b"[]",
            b'["requestId"]',
            b'  "text"',
            b"null",
            b"\xff\xfe",
            b"[" * 100_000,
            b"[" * 4000,
            b'{"requestId": 1}',
            b'{"requestId": "a", "requestId": "b"}',
            b'{"vanillaProofs": "AAAA"}',
            b'{"sectorSize": -1}',
            b'{"sectorSize": 1e400}',
            b'{"sectorSize": ' + b"9" * 5000 + b"}",
            b'{"proofKind": "POREP"}',
            b'{"requestId": "\\ud800"}',
            b'{"noSuchField": 1}',
            b"%PDF-1.7",
        ],
    )
    def test_as_json(self, data: bytes) -> None:
        with pytest.raises(InvalidRequest) as caught:
            request.parse_json(data)
        assert len(str(caught.value)) < 400

    @pytest.mark.parametrize("parse", [request.parse_json, request.parse_either])
    @pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
    @pytest.mark.parametrize("space", ["", "\r\n "])
    def test_a_file_in_utf_16_is_called_so(self, parse: Any, encoding: str, space: str) -> None:
        with pytest.raises(InvalidRequest, match="UTF-16"):
            parse((space + read(WINDOW).decode()).encode(encoding))

    @pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"\x0a\x05abc", b"\x0a\x02\xff\xfe", b"{}"])
    def test_as_protobuf(self, data: bytes) -> None:
        with pytest.raises(InvalidRequest):
            request.parse_message(data)

    def test_a_file_of_very_many_values_is_refused_before_they_are_built(self) -> None:
        with pytest.raises(InvalidRequest, match="more than 1048576 values"):
            request.parse_json(b'{"a": [' + b"0," * (1 << 20) + b"0,0]}")

    @pytest.mark.parametrize("parse", [request.parse_json, request.parse_message])
    def test_too_large(self, parse: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(request, "MAX_REQUEST", 1000)
        with pytest.raises(RequestTooLarge, match="1001 bytes given, 1000 allowed"):
            parse(b" " * 1001)


BAD_FIELDS: list[tuple[str, dict[str, Any], type[CuzkError], str]] = [
    (WINDOW, {"proof_kind": 0}, UnsupportedProof, "proof_kind: 0"),
    (WINDOW, {"proof_kind": 77}, UnsupportedProof, "proof_kind: 77"),
    (WINDOW, {"proof_kind": 1}, InvalidRequest, "randomness: the field belongs to another kind"),
    (WINDOW, {"proof_kind": 2}, RegisteredProofMismatch, "snap-update of 2KiB is registered as 0, not 10"),
    (WINDOW, {"proof_kind": 4}, RegisteredProofMismatch, "winning-post of 2KiB is registered as 0, not 10"),
    (WINDOW, {"sector_size": 0}, UnsupportedSectorSize, "sector_size: 0 bytes"),
    (WINDOW, {"sector_size": 2047}, UnsupportedSectorSize, "2KiB, 4KiB"),
    (WINDOW, {"sector_size": 8192}, UnsupportedSectorSize, "no window-post circuit for 8KiB"),
    (WINDOW, {"sector_size": 8 << 20}, RegisteredProofMismatch, "registered as 6 or 11, not 10"),
    (WINDOW, {"sector_size": 4096}, RegisteredProofMismatch, "4KiB has no registered proofs"),
    (WINDOW, {"sector_size": 4096, "registered_proof": 0}, TruncatedVanillaProof, "5680 bytes given, 6240 prescribed"),
    (WINDOW, {"registered_proof": 0}, RegisteredProofMismatch, "registered_proof: .*5 or 10, not 0"),
    (WINDOW, {"registered_proof": 1 << 40}, RegisteredProofMismatch, "not 1099511627776"),
    (WINDOW, {"vanilla_proofs": []}, WrongProofCount, "vanilla_proofs: 0 given, 1 to 2048 allowed"),
    (WINDOW, {"vanilla_proofs": [b""] * 2049}, WrongProofCount, "2049 given, 1 to 2048 allowed"),
    (WINNING, {"vanilla_proofs": []}, WrongProofCount, "vanilla_proofs: 0 given, exactly 1 allowed"),
    (WINNING, {"vanilla_proofs": [PROOF, PROOF]}, WrongProofCount, "2 given, exactly 1 allowed"),
    (WINNING, {"vanilla_proofs": [PROOF]}, TruncatedVanillaProof, "5680 bytes given, 36816 prescribed"),
    (WINDOW, {"vanilla_proofs": [PROOF, PROOF[:-1]]}, TruncatedVanillaProof, r"vanilla_proofs\[1\]: 5679 bytes"),
    (WINDOW, {"vanilla_proofs": [PROOF + b"\0"]}, TrailingBytes, r"vanilla_proofs\[0\]: 5681 bytes given, 5680"),
    (WINDOW, {"randomness": b""}, WrongLength, "randomness: 0 bytes given, 32 needed"),
    (WINDOW, {"randomness": bytes(33)}, WrongLength, "randomness: 33 bytes given"),
    (WINDOW, {"randomness": MODULUS.to_bytes(32, "little")}, NonCanonicalElement, "randomness: "),
    (WINDOW, {"miner_id": 1 << 63}, NumberOutOfRange, "miner_id: 9223372036854775808 given"),
    (WINDOW, {"sector_number": 1 << 63}, NumberOutOfRange, "sector_number: "),
    (WINDOW, {"partition_index": (1 << 32) - 1}, NumberOutOfRange, "partition_index: "),
    (WINNING, {"partition_index": 1}, NumberOutOfRange, "partition_index: 1 given, at most 0"),
    (WINDOW, {"vanilla_proof": b"x"}, InvalidRequest, "vanilla_proof: the field belongs to another kind"),
    (WINDOW, {"comm_r_old": bytes(32)}, InvalidRequest, "comm_r_old: "),
    (POREP, {"registered_proof": 6}, RegisteredProofMismatch, "porep-c2 of 2KiB is registered as 0 or 5 or 10, not 6"),
    (POREP, {"registered_proof": 20}, RegisteredProofMismatch, "not 20"),
    (POREP, {"registered_proof": 1 << 40}, RegisteredProofMismatch, "not 1099511627776"),
    (POREP, {"registered_proof": 15}, UnsupportedProof, r"15 \(StackedDrg2KiBV1_2_Feat_NonInteractivePoRep\)"),
    (POREP, {"registered_proof": 19}, UnsupportedProof, "registered_proof: 19 .*aggregation"),
    (POREP, {"sector_size": 4096}, UnsupportedSectorSize, "no seal proof of 4KiB, only of 2KiB, 8MiB"),
    (POREP, {"sector_size": 8192}, UnsupportedSectorSize, "no porep-c2 circuit for 8KiB"),
    (POREP, {"vanilla_proofs": [b"x"]}, InvalidRequest, "vanilla_proofs: the field belongs to another kind"),
    (POREP, {"randomness": bytes(32)}, InvalidRequest, "randomness: the field belongs to another kind"),
    (POREP, {"comm_d_new": bytes(32)}, InvalidRequest, "comm_d_new: the field belongs to another kind"),
    (POREP, {"partition_index": 1}, NumberOutOfRange, "partition_index: 1 given, at most 0"),
    (POREP, {"sector_number": 2}, SectorNumberMismatch, "vanilla_proof.SectorNum: sector 1, the request has 2"),
    (SNAP, {"registered_proof": 5}, RegisteredProofMismatch, "snap-update of 2KiB is registered as 0, not 5"),
    (SNAP, {"sector_size": 1 << 30}, UnsupportedSectorSize, "no snap-update circuit for 1GiB"),
    (SNAP, {"sector_size": 16 << 10}, WrongProofCount, "vanilla_proofs: 1 given, exactly 2 allowed"),
    (SNAP, {"vanilla_proofs": []}, WrongProofCount, "vanilla_proofs: 0 given, exactly 1 allowed"),
    (SNAP, {"vanilla_proof": b"x"}, InvalidRequest, "vanilla_proof: the field belongs to another kind"),
    (SNAP, {"randomness": bytes(32)}, InvalidRequest, "randomness: the field belongs to another kind"),
    (SNAP, {"comm_r_old": b""}, WrongLength, "comm_r_old: 0 bytes given, 32 needed"),
    (SNAP, {"comm_r_new": bytes(33)}, WrongLength, "comm_r_new: 33 bytes given"),
    (SNAP, {"comm_d_new": b"\xff" * 32}, NonCanonicalElement, "comm_d_new: "),
    (SNAP, {"partition_index": 1}, NumberOutOfRange, "partition_index: 1 given, at most 0"),
    (WINDOW, {"request_id": "x" * 10_000}, InvalidLabel, "request_id: 10000 bytes given, 1024 allowed"),
    (WINDOW, {"request_id": "é" * 513}, InvalidLabel, "1026 bytes given"),
    (WINDOW, {"request_id": "a\0b"}, InvalidLabel, r"character 1 \(U\+0000\) cannot be shown"),
    (WINDOW, {"request_id": "a\u202eb"}, InvalidLabel, r"U\+202E"),
    (WINDOW, {"request_id": "   "}, InvalidLabel, "begins or ends with a space"),
    (WINDOW, {"request_id": "a "}, InvalidLabel, "begins or ends with a space"),
]


@pytest.mark.parametrize(("name", "changes", "error", "text"), BAD_FIELDS)
def test_a_bad_field_is_named(name: str, changes: dict[str, Any], error: type[CuzkError], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        changed(name, **changes)
    assert type(caught.value) is error
    assert caught.value.field is not None


@pytest.mark.parametrize(
    ("name", "changes", "field", "text"),
    [
        (POREP, {"vanillaProof": "eyJ*"}, "vanilla_proof", "character 3 is none of base64"),
        (POREP, {"vanillaProof": "eyJTZ"}, "vanilla_proof", "5 characters are no whole number of bytes"),
        (WINDOW, {"randomness": "\n"}, "randomness", "character 0 is none"),
        (WINDOW, {"vanillaProofs": ["AAAA", "AA A"]}, "vanilla_proofs[1]", "character 2 is none"),
        (SNAP, {"commROld": "A===="}, "comm_r_old", "character 3 is none"),
    ],
)
def test_wrong_base64_is_named(name: str, changes: dict[str, Any], field: str, text: str) -> None:
    with pytest.raises(InvalidBase64, match=text) as caught:
        request.parse_json(json.dumps(json.loads(read(name)) | changes).encode())
    assert caught.value.field == field


def test_both_alphabets_of_base64_are_read_with_and_without_padding() -> None:
    fields = json.loads(read(SNAP))
    fields["commRNew"] = fields["commRNew"].replace("+", "-").replace("/", "_").rstrip("=")
    assert request.parse_json(json.dumps(fields).encode()) == parsed(SNAP)


def test_an_update_of_a_size_without_registered_proof_names_none() -> None:
    shape = update_shape(16 << 10)
    proofs = [bytes(partition_proof_size(shape))] * 2
    found = changed(SNAP, sector_size=16 << 10, registered_proof=0, vanilla_proofs=proofs)
    assert (found.registered_proof, found.partition_count) == (None, 2)


def test_markup_in_a_label_is_text() -> None:
    label = "<script>alert('x')</script> & \"quotes\" π"
    assert changed(WINDOW, request_id=label).request_id == label
    assert changed(WINDOW, request_id="x" * 1024).request_id == "x" * 1024


def test_unknown_fields_of_later_versions_are_dropped() -> None:
    data = message(WINDOW).SerializeToString() + b"\xa2\x06\x03new"  # field 100
    assert request.parse_message(data) == parsed(WINDOW)


def test_numbers_at_their_limits() -> None:
    found = changed(WINDOW, miner_id=(1 << 63) - 1, partition_index=(1 << 31) - 1025)
    assert found.miner_id == (1 << 63) - 1

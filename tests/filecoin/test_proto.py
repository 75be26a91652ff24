"""The generated protobuf code belongs to the .proto, and the wire format is the original's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor

from prover.filecoin.proto import cuzk_pb2

ROOT = Path(__file__).parents[2]
PROTO = Path("prover/filecoin/proto/cuzk.proto")
FIELDS = {
    "SubmitProofRequest": "request_id=1 proof_kind=2 sector_size=3 registered_proof=4 priority=5 vanilla_proof=10 "
    "vanilla_proofs=11 sector_number=20 miner_id=21 randomness=22 partition_index=23 comm_r_old=30 comm_r_new=31 "
    "comm_d_new=32",
    "SubmitProofResponse": "job_id=1 queue_position=2 assigned_gpu=3",
    "AwaitProofRequest": "job_id=1 timeout_ms=2",
    "AwaitProofResponse": "job_id=1 status=2 proof=3 error_message=4 queue_wait_ms=10 srs_load_ms=11 synthesis_ms=12 "
    "gpu_compute_ms=13 total_ms=14",
    "ProveRequest": "submit=1",
    "ProveResponse": "result=1",
    "CancelProofRequest": "job_id=1",
    "CancelProofResponse": "was_running=1",
    "GetStatusRequest": "",
    "GetStatusResponse": "gpus=1 loaded_srs=2 queues=3 total_proofs_completed=4 total_proofs_failed=5 uptime_seconds=6 "
    "pinned_memory_bytes=7 pinned_memory_limit_bytes=8",
    "GetMetricsRequest": "",
    "GetMetricsResponse": "prometheus_text=1",
    "PreloadSrsRequest": "circuit_id=1",
    "PreloadSrsResponse": "already_loaded=1 load_time_ms=2",
    "EvictSrsRequest": "circuit_id=1",
    "EvictSrsResponse": "was_loaded=1 freed_bytes=2",
    "GPUStatus": "ordinal=1 name=2 vram_total_bytes=3 vram_free_bytes=4 current_job_id=5 current_proof_kind=6",
    "SRSStatus": "circuit_id=1 tier=2 size_bytes=3 ref_count=4",
    "QueueStatus": "proof_kind=1 pending=2 in_progress=3",
}


@pytest.mark.parametrize("suffix", ["_pb2.py", "_pb2.pyi"])
def test_generated_code_is_current(suffix: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    subprocess.run([*command, str(PROTO)], cwd=ROOT, check=True, timeout=60)
    name = str(PROTO).replace(".proto", suffix)
    assert (tmp_path / name).read_text() == (ROOT / name).read_text(), "run `make proto`"


@pytest.mark.parametrize("message", FIELDS)
def test_messages_have_the_numbers_of_the_wire_format(message: str) -> None:
    found = cuzk_pb2.DESCRIPTOR.message_types_by_name[message]
    assert " ".join(f"{field.name}={field.number}" for field in found.fields) == FIELDS[message]


#: of the fields that are no text, bytes, enum or message
WIDE = "sector_size registered_proof sector_number miner_id timeout_ms queue_wait_ms srs_load_ms synthesis_ms " \
    "gpu_compute_ms total_ms vram_total_bytes vram_free_bytes size_bytes total_proofs_completed total_proofs_failed " \
    "uptime_seconds pinned_memory_bytes pinned_memory_limit_bytes load_time_ms freed_bytes"  # fmt: skip
NARROW = "partition_index queue_position ordinal ref_count pending in_progress"


def test_sizes_and_counters_are_wide_and_indexes_narrow() -> None:
    fields = [field for message in cuzk_pb2.DESCRIPTOR.message_types_by_name.values() for field in message.fields]
    assert {field.name for field in fields if field.type == field.TYPE_UINT64} == set(WIDE.split())
    assert {field.name for field in fields if field.type == field.TYPE_UINT32} == set(NARROW.split())
    kinds = [field for field in fields if field.name in ("proof_kind", "current_proof_kind")]
    assert {(field.containing_type.name, field.type) for field in kinds} == {
        ("SubmitProofRequest", FieldDescriptor.TYPE_ENUM), ("GPUStatus", FieldDescriptor.TYPE_STRING),
        ("QueueStatus", FieldDescriptor.TYPE_STRING),
    }  # fmt: skip


def test_no_message_is_missing_or_unknown() -> None:
    assert set(cuzk_pb2.DESCRIPTOR.message_types_by_name) == set(FIELDS)


def test_the_service_has_the_original_methods() -> None:
    service = cuzk_pb2.DESCRIPTOR.services_by_name["ProvingEngine"]
    assert service.full_name == "cuzk.v1.ProvingEngine"
    assert [method.name for method in service.methods] == [
        "SubmitProof", "AwaitProof", "Prove", "CancelProof", "GetStatus", "GetMetrics", "PreloadSRS", "EvictSRS",
    ]  # fmt: skip


def test_enum_numbers() -> None:
    enums = cuzk_pb2.DESCRIPTOR.enum_types_by_name
    assert enums["ProofKind"].values_by_name["WINNING_POST"].number == 4
    assert [value.name for value in enums["Priority"].values][1:] == ["LOW", "NORMAL", "HIGH", "CRITICAL"]

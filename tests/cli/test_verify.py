"""`cuzk verify` accepts the published proofs and refuses what is not one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prover.commands.exits import Exit

from .running import DATA, cuzk


def published(name: str) -> bytes:
    return bytes.fromhex(json.loads((DATA / name).read_text())["proof"])


def deadline() -> list[bytes]:
    return [
        bytes.fromhex(entry["proof"])
        for entry in json.loads((DATA / "deadline/deadline.json").read_text())["partitions"]
    ]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("window-post", "window"), ("winning-post", "winning"), ("snap-update", "update"), ("porep-c2", "porep")],
)
def test_a_published_proof_is_valid(kind: str, name: str, keys: Path, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    proof.write_bytes(published(f"2k/{name}.proof.json"))
    run = cuzk("verify", DATA / f"2k/requests/{kind}.json", proof, "--keys", keys)
    assert (run.returncode, run.stdout) == (0, f"valid: {kind} 2KiB, 1 partitions\n")
    assert run.stderr == "cuzk: warning: not the published keys: not for the chain\n"  # their scalars are known


def test_a_deadline_is_verified_partition_by_partition(keys: Path, tmp_path: Path) -> None:
    proofs, file = deadline(), tmp_path / "proof"
    file.write_bytes(b"".join(proofs))
    run = cuzk("verify", DATA / "deadline/request.json", file, "--keys", keys)
    assert (run.returncode, run.stdout) == (0, "valid: window-post 2KiB, 13 partitions\n")
    proofs[3], proofs[4] = proofs[4], proofs[3]
    file.write_bytes(b"".join(proofs))
    run = cuzk("verify", DATA / "deadline/request.json", file, "--keys", keys)
    assert (run.returncode, run.stdout) == (Exit.REFUSED, "NOT VALID: P3, P4\n")


@pytest.mark.parametrize(
    ("proof", "code", "text"),
    [
        (b"", Exit.BAD_INPUT, "0 bytes, not a multiple of 192 [proof_malformed]"),
        (bytes(191), Exit.BAD_INPUT, "191 bytes, not a multiple of 192"),
        (bytes(384), Exit.BAD_INPUT, "2 proofs for 1 partitions"),
        (bytes(192), Exit.BAD_INPUT, "proof.A"),
        (bytes(200_000), Exit.BAD_INPUT, "at most 196608 allowed [file_unreadable]"),
    ],
)
def test_what_is_no_proof_is_refused(proof: bytes, code: Exit, text: str, keys: Path, tmp_path: Path) -> None:
    file = tmp_path / "proof"
    file.write_bytes(proof)
    run = cuzk("verify", DATA / "2k/requests/window-post.json", file, "--keys", keys)
    assert run.returncode == code
    assert text in run.stderr


def test_a_proof_of_another_request_is_not_valid(keys: Path, tmp_path: Path) -> None:
    file = tmp_path / "proof"
    file.write_bytes(deadline()[0])
    run = cuzk("verify", DATA / "2k/requests/window-post.json", file, "--keys", keys)
    assert (run.returncode, run.stdout) == (Exit.REFUSED, "NOT VALID: P0\n")


def test_a_missing_file_and_a_missing_key(keys: Path, tmp_path: Path) -> None:
    run = cuzk("verify", tmp_path / "none.json", tmp_path / "none", "--keys", keys)
    assert run.returncode == Exit.BAD_INPUT
    assert "No such file or directory [file_unreadable]" in run.stderr
    proof = tmp_path / "proof"
    proof.write_bytes(deadline()[0])
    run = cuzk("verify", DATA / "2k/requests/window-post.json", proof, "--keys", tmp_path)
    assert run.returncode == Exit.KEYS
    assert "[key_not_found]" in run.stderr


def test_a_damaged_key_is_named(keys: Path, tmp_path: Path) -> None:
    (key,) = keys.glob("*0170db1f*.vk")
    data = bytearray(key.read_bytes())
    data[900] ^= 1  # in the first point of ic
    key.write_bytes(data)
    proof = tmp_path / "proof"
    proof.write_bytes(deadline()[0])
    run = cuzk("verify", DATA / "2k/requests/window-post.json", proof, "--keys", keys)
    assert run.returncode == Exit.KEYS
    assert "ic[0]" in run.stderr
    assert "[key_damaged]" in run.stderr

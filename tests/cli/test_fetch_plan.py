"""`cuzk keys fetch-plan` says what is published, how long it is and where it goes, and fetches nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from prover import cli
from prover.commands.exits import Exit
from prover.filecoin.published import published
from prover.filecoin.shapes import ProofKind, post_shape

Capture = pytest.CaptureFixture[str]
WINDOW = post_shape(ProofKind.WINDOW_POST, 2048).key_name


def plan(capsys: Capture, *words: str) -> list[dict[str, object]]:
    assert cli.main(["keys", "fetch-plan", *words, "--json"]) == 0
    found: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return found


def test_the_files_of_a_circuit(tmp_path: Path, capsys: Capture) -> None:
    params, vk = plan(capsys, "window-post", "--size", "2KiB", "--keys", str(tmp_path))
    known = published()[f"{WINDOW}.params"]
    assert params == {
        "circuit": "window-post 2KiB",
        "file": f"{WINDOW}.params",
        "cid": known.cid,
        "digest": known.digest,
        "url": f"https://proofs.filecoin.io/ipfs/{known.cid}",
        "destination": str(tmp_path / f"{WINDOW}.params"),
        "bytes": 11_501_496,
        "state": "missing",
        "unprovable": None,
    }
    assert (vk["file"], vk["bytes"]) == (f"{WINDOW}.vk", 3076)
    assert list(tmp_path.iterdir()) == []


def test_all_kinds_of_a_size(tmp_path: Path, capsys: Capture) -> None:
    steps = plan(capsys, "--size", "32GiB", "--keys", str(tmp_path))
    assert [step["circuit"] for step in steps[::2]] == [f"{kind} 32GiB" for kind in ProofKind]
    sizes = {str(step["file"]).rsplit(".", 1)[1] + str(step["circuit"]): step["bytes"] for step in steps}
    assert sizes["paramswinning-post 32GiB"] == 192_050_232
    assert sizes["vkwindow-post 32GiB"] == 868 + 96 * 25_840


def test_circuits_that_cannot_be_proved_here_are_said_to_be(tmp_path: Path, capsys: Capture) -> None:
    reasons = {str(step["circuit"]): step["unprovable"] for step in plan(capsys, "--size", "32GiB")}
    assert {circuit for circuit, reason in reasons.items() if reason} == {
        "porep-c2 32GiB", "snap-update 32GiB", "window-post 32GiB",
    }  # fmt: skip
    assert cli.main(["keys", "fetch-plan", "snap-update", "--size", "512MiB", "--keys", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert said.count("warning: snap-update 512MiB has 2^26 rows; this prover transforms at most 2^24") == 1


def test_what_is_there_already(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / f"{WINDOW}.vk").write_bytes(bytes(3076))
    (tmp_path / f"{WINDOW}.params").write_bytes(bytes(100))
    params, vk = plan(capsys, "window-post", "--size", "2KiB", "--keys", str(tmp_path))
    assert (params["state"], vk["state"]) == ("another length: 100 bytes", "there")
    assert cli.main(["keys", "fetch-plan", "window-post", "--size", "2KiB", "--keys", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "window-post 2KiB: there, 3076 bytes" in said.out
    assert "1 of 2 files to get, 0.01 GiB" in said.err


def test_another_network_and_gateway(tmp_path: Path, capsys: Capture) -> None:
    own = {
        f"{WINDOW}.{end}": {"cid": "Qm" + "b" * 44, "digest": "1" * 32, "sector_size": 2048} for end in ("params", "vk")
    }
    (tmp_path / "parameters.json").write_text(json.dumps(own))
    words = ["--parameters", str(tmp_path / "parameters.json"), "--gateway", "https://gateway.example/ipfs"]
    step, _ = plan(capsys, "window-post", "--size", "2KiB", "--keys", str(tmp_path), *words)
    assert step["url"] == "https://gateway.example/ipfs/Qm" + "b" * 44
    assert step["digest"] == "1" * 32


@pytest.mark.parametrize(
    ("words", "code"), [(["window-post", "--size", "4KiB"], "key_not_published"), (["--size", "8KiB"], "unsupported")]
)
def test_circuits_without_published_keys(words: list[str], code: str, capsys: Capture) -> None:
    assert cli.main(["keys", "fetch-plan", *words]) == Exit.BAD_INPUT
    assert code in capsys.readouterr().err


def test_a_damaged_list(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "parameters.json").write_text("{")
    words = ["keys", "fetch-plan", "--size", "2KiB", "--parameters", str(tmp_path / "parameters.json")]
    assert cli.main(words) == Exit.BAD_INPUT
    assert "[manifest_invalid]" in capsys.readouterr().err

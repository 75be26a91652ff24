"""`cuzk keys setup` and `cuzk prove`: the bytes of the Rust stack where the scalars are known; fresh data verifies."""

from __future__ import annotations

import base64
import json
import os
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from prover import cli
from prover.commands.exits import Exit
from prover.filecoin.shapes import ProofKind, post_shape

from .conftest import WARNING
from .running import DATA, cuzk

Capture = pytest.CaptureFixture[str]
KEY = post_shape(ProofKind.WINDOW_POST, 2048).key_name
WINDOW = DATA / "2k/requests/window-post.json"


def vector(name: str) -> Any:
    return json.loads((DATA / name).read_text())


def test_the_key_of_known_scalars_is_that_of_the_rust_stack(local: Path) -> None:
    published = vector("2k/window.setup.json")
    assert sha256((local / f"{KEY}.params").read_bytes()).hexdigest() == published["params_sha256"]
    assert (local / f"{KEY}.vk").read_bytes() == (DATA / "2k/window.vk").read_bytes()
    assert json.loads((local / f"{KEY}.meta").read_text()) == {"sector_size": 2048}


def test_a_key_is_never_overwritten(local: Path, capsys: Capture) -> None:
    before = (local / f"{KEY}.params").stat()
    assert cli.main(["keys", "setup", "window-post", "--out", str(local)]) == Exit.KEYS
    assert "[key_exists]" in capsys.readouterr().err
    assert (local / f"{KEY}.params").stat() == before


def test_local_keys_say_so(local: Path, capsys: Capture) -> None:
    assert cli.main(["keys", "list", "--keys", str(local), "--json"]) == 0
    (listed,) = json.loads(capsys.readouterr().out)
    assert (listed["circuit"], listed["local"]) == ("window-post 2KiB", True)
    assert listed["warning"] == "local keys: not for the chain"
    assert cli.main(["keys", "list", "--keys", str(local)]) == 0
    assert "local keys: not for the chain" in capsys.readouterr().out


def fixed() -> tuple[str, ...]:
    """The r and s of all published proofs."""
    published = vector("deadline/deadline.json")
    return ("--r", published["r"], "--s", published["s"])


@pytest.mark.parametrize(
    "devices",
    [
        pytest.param([], id="one device"),
        pytest.param(["--devices", "2"], id="two devices", marks=pytest.mark.acceptance),
    ],
)
def test_the_proof_of_fixed_r_and_s_is_that_of_the_rust_stack(
    devices: list[str], run: Any, local: Path, tmp_path: Path
) -> None:
    out = tmp_path / "proof"
    made = run("prove", WINDOW, "--keys", local, "--out", out, *fixed(), *devices)
    assert made.returncode == 0, made.stderr
    assert WARNING in made.stderr
    assert "fixed r and s give the witness away" in made.stderr
    assert made.stdout == f"window-post 2KiB: 1 partitions, 192 bytes, verified: {out}\n"
    assert out.read_bytes().hex() == vector("2k/window.proof.json")["proof"]
    checked = run("verify", WINDOW, out, "--keys", local)
    assert (checked.returncode, checked.stderr) == (0, WARNING)


def test_tables_that_were_made_ahead_of_time_are_listed_and_give_the_same_proof(
    run: Any, cache: dict[str, str], local: Path, tmp_path: Path
) -> None:
    memory = "400MiB"
    made = run("keys", "tables", "--keys", local, "--memory", memory)
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith("window-post 2KiB: ") and "MiB of bases and tables" in made.stdout
    listed = run("keys", "list", "--keys", local)
    assert ", and tables of " in listed.stdout, listed.stdout
    (key,) = json.loads(run("keys", "list", "--keys", local, "--json").stdout)
    assert key["tables"] > 0 and key["table_bytes"] < 2 * (400 << 20)
    proved = cuzk(
        "prove", WINDOW, "--keys", local, "--out", tmp_path / "proof", *fixed(),
        env=cache | {"CUZK_MEMORY__HOST_MEMORY": memory}, timeout=3600,
    )  # fmt: skip
    assert proved.returncode == 0, proved.stderr
    assert (tmp_path / "proof").read_bytes().hex() == vector("2k/window.proof.json")["proof"]


def test_tables_need_a_key_of_a_known_circuit(tmp_path: Path, capsys: Capture) -> None:
    name = KEY[:-1] + "1"
    (tmp_path / f"{name}.params").write_bytes((DATA / "2k/tiny.params").read_bytes())
    assert cli.main(["keys", "tables", "--keys", str(tmp_path)]) == Exit.BAD_INPUT
    assert "[circuit_unknown]" in capsys.readouterr().err
    assert cli.main(["keys", "tables", "v29", "--keys", str(tmp_path)]) == Exit.KEYS


@pytest.mark.acceptance
def test_so_is_every_partition_of_a_deadline(run: Any, local: Path, tmp_path: Path) -> None:
    out = tmp_path / "proof"
    made = run("prove", DATA / "deadline/request.json", "--keys", local, "--out", out, *fixed())
    assert made.returncode == 0, made.stderr
    assert out.read_bytes().hex() == "".join(entry["proof"] for entry in vector("deadline/deadline.json")["partitions"])


def test_a_fresh_sector_is_proved_with_fresh_randomness(run: Any, local: Path, tmp_path: Path) -> None:
    request, first, second = tmp_path / "request.json", tmp_path / "first", tmp_path / "second"
    run("sample", "window-post", "--seed", 11, "--sectors", 1, "--out", request)
    for out in (first, second):
        assert run("prove", request, "--keys", local, "--out", out).returncode == 0
        assert run("verify", request, out, "--keys", local).returncode == 0
    assert first.read_bytes() != second.read_bytes()
    assert run("verify", WINDOW, first, "--keys", local).returncode == Exit.REFUSED


def test_a_false_request_is_not_proved(local: Path, tmp_path: Path, capsys: Capture) -> None:
    fields, request, out = vector("2k/requests/window-post.json"), tmp_path / "false.json", tmp_path / "proof"
    request.write_text(json.dumps(fields | {"randomness": vector("deadline/request.json")["randomness"]}))
    assert cli.main(["prove", str(request), "--keys", str(local), "--out", str(out)]) == Exit.BAD_INPUT
    text = capsys.readouterr().err
    assert "vanilla_proofs[0].sectors[0].inclusion_proofs[0]: " in text
    assert "[wrong_challenge]" in text
    assert not out.exists()


@pytest.mark.parametrize("arguments", [["--r", "1"], ["--r", "x", "--s", "1"], ["--r", "f" * 64, "--s", "1"]])
def test_blinding_that_is_none(arguments: list[str], local: Path, tmp_path: Path, capsys: Capture) -> None:
    command = ["prove", str(WINDOW), "--keys", str(local), "--out", str(tmp_path / "proof"), *arguments]
    assert cli.main(command) == Exit.BAD_INPUT
    assert "[blinding_invalid]" in capsys.readouterr().err


@pytest.mark.parametrize("devices", ["0", "65", "many"])
def test_a_number_of_devices_that_is_none(devices: str, tmp_path: Path, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["prove", str(WINDOW), "--out", str(tmp_path / "proof"), "--devices", devices])
    assert caught.value.code == Exit.USAGE
    assert "--devices" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{", '{"alpha": "01"}', '{"scalars": 1}'])
def test_scalars_that_are_none(text: str, tmp_path: Path, capsys: Capture) -> None:
    file, keys = tmp_path / "scalars.json", tmp_path / "keys"
    file.write_text(text)
    command = ["keys", "setup", "window-post", "--out", str(keys), "--scalars", str(file)]
    assert cli.main(command) == Exit.BAD_INPUT
    assert "[scalars_" in capsys.readouterr().err
    assert not keys.exists()


def test_a_request_without_its_key(local: Path, tmp_path: Path, capsys: Capture) -> None:
    winning = str(DATA / "2k/requests/winning-post.json")
    assert cli.main(["prove", winning, "--keys", str(local), "--out", str(tmp_path / "proof")]) == Exit.KEYS
    assert "[key_not_found]" in capsys.readouterr().err


def test_a_platform_that_is_not_there_is_an_error(local: Path, tmp_path: Path) -> None:
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": "", "XDG_CACHE_HOME": str(tmp_path)}
    made = cuzk("prove", WINDOW, "--keys", local, "--out", tmp_path / "proof", "--platform", "gpu", env=hidden)
    assert made.returncode == Exit.UNAVAILABLE
    assert "[platform_unavailable]" in made.stderr


def test_a_damaged_key_is_found_before_it_is_used(local: Path, tmp_path: Path, capsys: Capture) -> None:
    damaged = tmp_path / "keys"
    damaged.mkdir()
    for file in local.iterdir():
        (damaged / file.name).write_bytes(file.read_bytes())
    with (damaged / f"{KEY}.params").open("r+b") as key:
        key.seek(5_000_000)
        key.write(b"\1" * 40)
    assert cli.main(["prove", str(WINDOW), "--keys", str(damaged), "--out", str(tmp_path / "proof")]) == Exit.KEYS
    assert "[key_damaged]" in capsys.readouterr().err
    assert cli.main(["keys", "check", "--keys", str(damaged)]) == Exit.KEYS


@pytest.mark.parametrize(("kind", "size"), [("window-post", "32GiB"), ("porep-c2", "64GiB"), ("snap-update", "512MiB")])
def test_no_key_is_made_of_a_circuit_beyond_the_transforms(
    kind: str, size: str, tmp_path: Path, capsys: Capture
) -> None:
    assert cli.main(["keys", "setup", kind, "--size", size, "--out", str(tmp_path / "keys")]) == Exit.BAD_INPUT
    assert "[domain_too_large]" in capsys.readouterr().err
    assert not (tmp_path / "keys").exists()


def test_a_request_for_a_circuit_beyond_the_transforms_is_refused_at_once(tmp_path: Path, capsys: Capture) -> None:
    request = vector("2k/requests/window-post.json") | {"sectorSize": str(32 << 30), "registeredProof": "13"}
    request["vanillaProofs"] = [base64.b64encode(bytes(24_960)).decode()]
    (tmp_path / "request.json").write_text(json.dumps(request))
    words = ["prove", str(tmp_path / "request.json"), "--keys", str(tmp_path), "--out", str(tmp_path / "proof")]
    assert cli.main(words) == Exit.BAD_INPUT
    said = capsys.readouterr().err
    assert "[domain_too_large]" in said and "checking" not in said


@pytest.mark.acceptance
@pytest.mark.parametrize("size", ["4KiB", "16KiB", "32KiB"])
def test_other_tree_shapes_work_by_their_parameters(run: Any, size: str, tmp_path: Path) -> None:
    keys, request, out = tmp_path / "keys", tmp_path / "request.json", tmp_path / "proof"
    assert run("keys", "setup", "window-post", "--size", size, "--out", keys).returncode == 0
    assert run("sample", "window-post", "--size", size, "--seed", 1, "--sectors", 3, "--out", request).returncode == 0
    made = run("prove", request, "--keys", keys, "--out", out)
    assert made.returncode == 0, made.stderr
    assert run("verify", request, out, "--keys", keys).stdout == f"valid: window-post {size}, 2 partitions\n"

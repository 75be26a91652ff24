"""`cuzk doctor` finds what is there and what is missing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from prover.commands.exits import Exit
from prover.stack.roles import DAEMON
from tests.journal.helpers import running
from tests.postgres import Database

from .running import DATA, cuzk

NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


def doctor(tmp_path: Path, url: str, *arguments: str) -> tuple[int, dict[str, list[dict[str, str]]]]:
    """The exit code, and the findings by piece."""
    environment = os.environ | {
        "DATABASE_URL": url,
        "FIL_PROOFS_PARAMETER_CACHE": str(tmp_path / "keys"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    run = cuzk("doctor", "--json", *arguments, env=environment)
    assert run.stdout, run.stderr
    found: dict[str, list[dict[str, str]]] = {}
    for finding in json.loads(run.stdout):
        found.setdefault(finding["piece"], []).append(finding)
    return run.returncode, found


def test_a_bare_machine(tmp_path: Path) -> None:
    code, found = doctor(tmp_path, NOWHERE)
    assert code == Exit.UNAVAILABLE
    assert found["machine"][0]["verdict"] in ("good", "warning")
    assert found["devices"] == [
        {"piece": "devices", "verdict": "good", "text": "device 0: cpu (cpu), its memory is the host's"}
    ]
    assert found["keys"][0]["verdict"] == "bad"
    assert "cuzk keys setup" in found["keys"][0]["text"]
    assert {finding["verdict"] for finding in found["folders"]} == {"good"}
    assert found["database"][0]["text"].endswith("[database_away]")


@pytest.mark.postgres
def test_keys_database_and_provers(database: Database, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.mkdir()
    shutil.copy(DATA / "2k/tiny.params", keys / "v28-tiny.params")
    with running(database, tmp_path):
        code, found = doctor(tmp_path, database.url(DAEMON))
    assert code == 0
    (key,) = found["keys"]
    assert (key["verdict"], "unknown circuit v28-tiny" in key["text"]) == ("warning", True)
    clock, prover = found["database"]
    assert (clock["verdict"], prover["verdict"]) == ("good", "good")
    assert "prover prover-a: online" in prover["text"]


def test_a_device_that_is_not_there(tmp_path: Path) -> None:
    _, found = doctor(tmp_path, NOWHERE, "--set", "gpus.devices=5")
    assert found["devices"][0]["verdict"] == "bad"
    assert "[device_missing]" in found["devices"][0]["text"]


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    _, found = doctor(tmp_path, NOWHERE, "--set", f"daemon.spool={tmp_path}/file/spool")
    assert found["folders"][0]["verdict"] == "bad"


def test_a_wrong_configuration(tmp_path: Path) -> None:
    run = cuzk("doctor", "--set", "gpus.device=5")
    assert run.returncode == Exit.BAD_INPUT
    assert "did you mean gpus.devices?" in run.stderr

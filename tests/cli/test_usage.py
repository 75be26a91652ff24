"""Help, exit codes and errors of the command line, and that its documentation is complete."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from prover import cli
from prover.commands.exits import MEANINGS, Exit

from .running import DATA, cuzk

DOCUMENTATION = (Path(__file__).parents[2] / "docs/cli.md").read_text()


def test_help_lists_commands_and_exit_codes() -> None:
    run = cuzk("--help")
    assert run.returncode == 0
    for code, text in MEANINGS.items():
        assert re.search(rf"^ +{code.value} +{re.escape(text)}$", run.stdout, re.MULTILINE)


def test_every_command_and_exit_code_is_documented() -> None:
    (commands,) = (action.choices for action in cli.parser()._actions if isinstance(action.choices, dict))
    assert commands
    for command in commands:
        assert f"| `{command}" in DOCUMENTATION
    assert {f"| {code.value} | {text} |" for code, text in MEANINGS.items()} <= set(DOCUMENTATION.splitlines())


@pytest.mark.parametrize(
    "arguments", [[], ["no-such-command"], ["sample", "window-post"], ["sample", "x", "--seed", "1"]]
)
def test_wrong_usage(arguments: list[str]) -> None:
    run = cuzk(*arguments)
    assert run.returncode == Exit.USAGE
    assert "usage: cuzk" in run.stderr


def test_help_starts_without_jax_and_numpy() -> None:
    run = cuzk("--help", env={"PYTHONPROFILEIMPORTTIME": "1", "PATH": "/usr/bin:/bin"}, cwd=DATA.parents[1])
    assert run.returncode == 0
    assert not re.search(r"\| +(jax|numpy)\b", run.stderr)


def test_output_into_a_closed_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m prover sample window-post --seed 1 --sectors 12 | head -c 10"
    run = subprocess.run(["bash", "-o", "pipefail", "-c", command], capture_output=True, timeout=60, check=False)
    assert (run.returncode, run.stderr) == (0, b"")


def test_output_that_cannot_be_written_is_no_error_of_ours() -> None:
    for arguments in (["errors"], ["errors", "wrong_challenge"], ["sample", "window-post", "--seed", "1"]):
        with open("/dev/full", "w") as full:
            run = subprocess.run([sys.executable, "-m", "prover", *arguments], stdout=full, stderr=subprocess.PIPE)
        assert run.returncode == Exit.UNAVAILABLE
        assert run.stderr.decode() == "cuzk: error: standard output: No space left on device [file_unwritable]\n"


@pytest.mark.parametrize("arguments", [["errors"], ["sample", "window-post", "--seed", "1"]])
def test_output_may_be_closed(arguments: list[str]) -> None:
    command = '"$0" -m prover "$@" >&-'
    run = subprocess.run(["sh", "-c", command, sys.executable, *arguments], stderr=subprocess.PIPE)
    assert (run.returncode, run.stderr) == (0, b"")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    run = cuzk("keys", "setup", "window-post", "--size", "2KiB", "--out", tmp_path / "file" / "keys", timeout=120)
    assert run.returncode == Exit.UNAVAILABLE, run.stderr
    assert str(tmp_path / "file") in run.stderr and "[file_unwritable]" in run.stderr


@pytest.mark.parametrize("timeout", ["nan", "-1", "inf", "soon"])
def test_a_timeout_is_a_time(timeout: str) -> None:
    run = cuzk("submit", DATA / "x.json", "--wait", "--timeout", timeout)
    assert run.returncode == Exit.USAGE and "--timeout" in run.stderr


def test_the_configuration_can_be_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "cuzk.toml"
    file.write_text("[gpus]\ncpu_devices = 2\n")
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(tmp_path),
        "RUST_LOG": "debug,h2=info",
        "CUZK_CONFIG": str(file),
    }
    arguments = ("daemon", "--set", "daemon.prover=olga", "--log-level", "warn", "--print-config")
    run = cuzk(*arguments, env=environment)
    assert run.returncode == 0, run.stderr
    assert run.stderr.splitlines() == [
        f"cuzk: configuration: {file}",
        "cuzk: warning: RUST_LOG: h2=info has no effect: there is one level for all modules",
    ]
    assert f"cpu_devices = 2  # {file} line 2" in run.stdout and 'level = "warning"  # the command line' in run.stdout
    assert 'prover = "olga"  # the command line' in run.stdout
    wrong = cuzk("daemon", "--set", "gpus.cpu_device=2", env=environment)
    assert wrong.returncode == Exit.BAD_INPUT and "did you mean gpus.cpu_devices?" in wrong.stderr

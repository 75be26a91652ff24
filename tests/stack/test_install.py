"""Whether `make install` installs the CUDA build of JAX, and what `cuzk up` then proves on."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from prover.stack import install, platforms
from tests.postgres import ROOT

SMI = "#!/bin/sh\necho '{}'\nexit {}\n"


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without a GPU: no driver, and one folder of programs, which is given."""
    monkeypatch.setattr(install, "DRIVER", tmp_path / "driver")
    for name in ("CUZK_CUDA", platforms.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    return programs


def put_smi(folder: Path, says: str, status: int = 0) -> None:
    program = folder / "nvidia-smi"
    program.write_text(SMI.format(says, status))
    program.chmod(0o755)


@pytest.fixture
def pips(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, ...]]:
    """What pip is asked for, instead of doing it."""
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(install, "pip", lambda _folder, *words: asked.append(words))
    monkeypatch.setattr(install, "make_environment", lambda folder: folder.mkdir(exist_ok=True))
    locks = [str(ROOT / name) for name in ("requirements.lock", "requirements-cuda.lock")]
    monkeypatch.setattr(sys, "argv", ["install.py", str(tmp_path / "venv"), *locks])
    return asked


def locks(asked: list[tuple[str, ...]]) -> list[list[str]]:
    return [[Path(w).name for w in words if w.endswith(".lock")] for words in asked if "--requirement" in words]


def test_without_a_gpu_nothing_of_cuda_is_installed(bare: Path, pips: list[tuple[str, ...]]) -> None:
    assert install.main() == 0
    assert locks(pips) == [["requirements.lock"]]


@pytest.mark.parametrize("how", ["driver", "nvidia-smi"])
def test_a_gpu_that_comes_later_gets_its_packages_once(how: str, bare: Path, pips: list[tuple[str, ...]]) -> None:
    install.main()
    if how == "driver":
        (bare.parent / "driver").write_text("NVRM version: 570\n")
    else:
        put_smi(bare, "GPU 0: H200 (UUID: GPU-1)")
    for _ in range(2):
        install.main()
    assert locks(pips) == [["requirements.lock"], ["requirements.lock", "requirements-cuda.lock"]]


def test_cuda_can_be_left_out(bare: Path, pips: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch) -> None:
    put_smi(bare, "GPU 0: H200 (UUID: GPU-1)")
    monkeypatch.setenv("CUZK_CUDA", "0")
    install.main()
    assert locks(pips) == [["requirements.lock"]]


@pytest.mark.parametrize(("says", "status"), [("No devices were found", 6), ("No devices found.", 0)])
def test_a_program_that_lists_no_gpu_is_none(says: str, status: int, bare: Path) -> None:
    put_smi(bare, says, status)
    assert not install.has_nvidia_gpu()


def test_cuda_is_pinned_and_of_the_same_jax() -> None:
    pins = dict(line.split("==") for line in (ROOT / "requirements-cuda.lock").read_text().split("\n")[1:-1])
    (jax,) = re.findall(r"^jax==(.*)$", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert pins["jax-cuda12-plugin"] == pins["jax-cuda12-pjrt"] == jax
    assert f'"jax[cuda12]=={jax}"' in (ROOT / "pyproject.toml").read_text()


def test_the_stack_proves_on_a_gpu_that_jax_finds(bare: Path) -> None:
    said: list[str] = []
    assert platforms.platform(said.append) == "cpu" and said == []
    put_smi(bare, "GPU 0: H200 (UUID: GPU-1)")
    assert platforms.platform(said.append, "print('H200')") == "gpu"
    assert said == ["proving on a GPU: H200 (CUZK_GPUS__PLATFORM=cpu: on the CPU)"]


def test_a_gpu_that_jax_cannot_use_is_told_of(bare: Path) -> None:
    put_smi(bare, "GPU 0: H200 (UUID: GPU-1)")
    said: list[str] = []
    assert platforms.platform(said.append) == "cpu"
    assert len(said) == 1 and "proving on the CPU" in said[0] and "JAX has no 'gpu' here" in said[0]


def test_a_setting_decides(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_smi(bare, "GPU 0: H200 (UUID: GPU-1)")
    monkeypatch.setenv(platforms.VARIABLE, "cpu")
    assert platforms.platform(pytest.fail, "raise SystemExit(1)") == "cpu"

"""Make the virtual environment with nothing but Python 3.11's own library. Run as a script by the Makefile.

Debian's bare `python3` has no ensurepip; so pip's wheel is bundled here, as ensurepip bundles it. Where an NVIDIA GPU
with its driver is found, the CUDA build of JAX is installed too (CUZK_CUDA=0: not). A second run does nothing while
the lock files are unchanged.
usage: install.py FOLDER LOCKFILE [LOCKFILE OF CUDA]
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

PIP = Path(__file__).resolve().parent / "bundled" / "pip-26.3-py3-none-any.whl"
STAMP = ".installed"
#: the kernel's driver says its version here
DRIVER = Path("/proc/driver/nvidia/version")


def main() -> int:
    """Install the lock files' packages and the project itself; returns the exit code."""
    folder, lock, *cuda = (Path(argument).resolve() for argument in sys.argv[1:])
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs an older Python shall be told so
        print(f"cuzk needs Python 3.11 or newer; this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    locks = [lock, *(cuda if wants_cuda() else [])]
    wanted = hashlib.sha256(b"".join(file.read_bytes() for file in locks) + str(lock.parent).encode()).hexdigest()
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return 0
    make_environment(folder)
    if len(locks) > 1:
        print("an NVIDIA GPU: installing the CUDA build of JAX too (3 GB more, once)", file=sys.stderr)
    pip(folder, "install", "--quiet", *(word for file in locks for word in ("--requirement", str(file))))
    pip(folder, "install", "--quiet", "--no-deps", "--editable", str(lock.parent))
    stamp.write_text(wanted)
    return 0


def wants_cuda() -> bool:
    """Whether to install what computes on NVIDIA GPUs."""
    return os.environ.get("CUZK_CUDA") != "0" and has_nvidia_gpu()


def has_nvidia_gpu() -> bool:
    """Whether the kernel has NVIDIA's driver, or `nvidia-smi` lists a GPU (a container may hide the former)."""
    if DRIVER.is_file():
        return True
    program = shutil.which("nvidia-smi")
    if program is None:
        return False
    try:
        listed = subprocess.run([program, "-L"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and "GPU 0" in listed.stdout


def make_environment(folder: Path) -> None:
    """A virtual environment with pip in it."""
    if (folder / "bin" / "pip").exists():
        return
    print(f"making {folder.name} and installing the pinned packages (about 500 MB, once)", file=sys.stderr)
    venv.create(folder, with_pip=False, clear=True)
    subprocess.run([python(folder), f"{PIP}/pip", "install", "--quiet", "--no-index", str(PIP)], check=True)


def python(folder: Path) -> str:
    """The environment's interpreter."""
    return str(folder / "bin" / "python")


def pip(folder: Path, *arguments: str) -> None:
    """Run pip inside the environment; a failure stops the installation with pip's own words."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # of build backends, about editable installs
    command = [python(folder), "-m", "pip", "--disable-pip-version-check", *arguments]
    if subprocess.run(command, env=environment).returncode:
        raise SystemExit("pip failed; see above")


if __name__ == "__main__":
    sys.exit(main())

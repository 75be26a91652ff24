"""Make the virtual environment with nothing but Python 3.11's own library. Run as a script by the Makefile.

Debian's bare `python3` has no ensurepip; so pip's wheel is bundled here, as ensurepip bundles it. A second run does
nothing while the lock file is unchanged.
usage: install.py FOLDER LOCKFILE
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

PIP = Path(__file__).resolve().parent / "bundled" / "pip-26.3-py3-none-any.whl"
STAMP = ".installed"


def main() -> int:
    """Install the lock file's packages and the project itself; returns the exit code."""
    folder, lock = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    if sys.version_info < (3, 11):  # noqa: UP036 - whoever runs an older Python shall be told so
        print(f"cuzk needs Python 3.11 or newer; this is {sys.version.split()[0]}", file=sys.stderr)
        return 2
    wanted = hashlib.sha256(lock.read_bytes() + str(lock.parent).encode()).hexdigest()
    stamp = folder / STAMP
    if stamp.is_file() and stamp.read_text() == wanted:
        return 0
    make_environment(folder)
    pip(folder, "install", "--quiet", "--requirement", str(lock))
    pip(folder, "install", "--quiet", "--no-deps", "--editable", str(lock.parent))
    stamp.write_text(wanted)
    return 0


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

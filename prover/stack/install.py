"""Make the virtual environment with nothing but Python 3.11's own library. Run as a script by the Makefile.

Debian's bare `python3` has no ensurepip: then pip's wheel is fetched from the package index and checked against the
digest below, so it need not be trusted. A second run does nothing while the lock file is unchanged.
usage: install.py FOLDER LOCKFILE
"""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import venv
from pathlib import Path

PIP = "pip-26.3-py3-none-any.whl"
PIP_SHA256 = "f3b60b20ffaadd4415ed7957212a38ac63fa4c5fa375bd0f4a797777940fad13"
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
    try:
        import ensurepip  # noqa: F401
    except ImportError:
        venv.create(folder, with_pip=False, clear=True)
        with tempfile.TemporaryDirectory() as scratch:
            wheel = fetch_pip(Path(scratch))
            subprocess.run([python(folder), f"{wheel}/pip", "install", "--quiet", str(wheel)], check=True)
    else:
        venv.create(folder, with_pip=True, clear=True)


def fetch_pip(scratch: Path) -> Path:
    """pip's wheel from the package index (PIP_INDEX_URL, or PyPI's), checked against its digest."""
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/") + "/pip/"
    link = re.search(rf'href="([^"]*{re.escape(PIP)}[^"]*)"', download(index).decode())
    if link is None:
        raise SystemExit(f"the package index has no {PIP}; install python3-venv, or set PIP_INDEX_URL")
    wheel = scratch / PIP
    wheel.write_bytes(download(urllib.parse.urljoin(index, link[1])))
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    if found != PIP_SHA256:
        raise SystemExit(f"{PIP} has digest {found}, not {PIP_SHA256}: refused")
    return wheel


def download(url: str) -> bytes:
    """The body behind `url`. A machine without root certificates is served too: the digest is what is trusted."""
    bundle = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    try:
        return read(url, ssl.create_default_context(cafile=bundle))
    except urllib.error.URLError as error:
        if not isinstance(error.reason, ssl.SSLCertVerificationError):
            raise SystemExit(f"cannot fetch {url}: {error.reason}") from error
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    return read(url, unverified)


def read(url: str, context: ssl.SSLContext) -> bytes:
    """One GET, at most 16 MB, within a minute."""
    with urllib.request.urlopen(url, context=context, timeout=60) as answer:
        body: bytes = answer.read(16 << 20)
        return body


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

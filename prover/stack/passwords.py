"""Generated secrets, each in a file of its own that only its owner reads."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def password(folder: Path, name: str) -> str:
    """The secret `name`, made on first use: 32 random bytes in URL-safe base64, in a file of mode 0600."""
    path = folder / name
    if not path.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _write(path, secrets.token_urlsafe(32))
    return path.read_text().strip()


def _write(path: Path, text: str) -> None:
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(descriptor)
    scratch.rename(path)

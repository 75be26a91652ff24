"""Small file systems for tests of full and read-only disks. They need root, and a kernel that lets it mount."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Disk:
    """A tmpfs at `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Use up every byte."""
        with self._ballast.open("ab", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(bytes(size)):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        """Give all of that back."""
        self._ballast.unlink()

    def make_read_only(self) -> None:
        """Refuse to be written."""
        _run("mount", "-o", "remount,ro", str(self.folder))


@contextmanager
def small_disk(folder: Path, size: str = "32m") -> Iterator[Disk]:
    """A file system of its own for the block; skips the test where it cannot be had."""
    folder.mkdir()
    if os.geteuid() != 0 or _run("mount", "-t", "tmpfs", "-o", f"size={size}", "cuzk-test", str(folder)):
        pytest.skip("needs a file system of its own: only root may mount one")
    try:
        yield Disk(folder)
    finally:
        assert not _run("umount", "--lazy", str(folder))


def _run(*command: str) -> int:
    return subprocess.run(command, capture_output=True).returncode

"""The memory that this process may have: the machine's, or less where a control group (a container) says so.

Both versions of control groups are read, each group up to the root of what is mounted: the tightest one counts. Pages
of files that nobody uses at the moment are not counted as used: the kernel gives them up before it refuses anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

import psutil

#: where nothing is said, bases and tables get this part of a device's own memory
DEVICE_SHARE: Final = 2
#: bytes that a device is given at a time at the least: the sums of the most buckets of a set must fit
LEAST_CHUNK: Final = 1 << 25


@dataclass(frozen=True, slots=True)
class Memory:
    """In bytes."""

    total: int
    available: int


@dataclass(frozen=True, slots=True)
class _Files:
    """What a version calls its files, and the pages of files in its `memory.stat`."""

    limit: str
    used: str
    spare: str


_VERSION_2 = _Files("memory.max", "memory.current", "inactive_file")
_VERSION_1 = _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def memory(root: Path = Path("/")) -> Memory:
    """What there is now. `root`: where /proc and the mounts of control groups are, for tests."""
    machine = psutil.virtual_memory()
    total, available = machine.total, machine.available
    for limit, free in _limits(root):
        total, available = min(total, limit), min(available, max(0, free))
    return Memory(total, available)


def _limits(root: Path) -> Iterator[tuple[int, int]]:
    """Limit, and what is left of it, of each group that has one."""
    for folder, files in _groups(root):
        with suppress(OSError, ValueError):  # no such file; or "max"
            limit = int((folder / files.limit).read_text())
            used = int((folder / files.used).read_text())
            yield limit, limit - used + _spare(folder, files.spare)


def _spare(folder: Path, word: str) -> int:
    with suppress(OSError, ValueError):
        for line in (folder / "memory.stat").read_text().splitlines():
            if line.startswith(f"{word} "):
                return int(line.removeprefix(f"{word} "))
    return 0


def _groups(root: Path) -> Iterator[tuple[Path, _Files]]:
    """The folders of the process's groups and of those around them."""
    own = _own_groups(root)
    for mounted, point, version in _mounts(root):
        group = own.get(version)
        if group is None:
            continue
        # a container sees its own group at the mount, whatever the path that the process is said to be at
        inside = group.relative_to(mounted) if group.is_relative_to(mounted) else PurePosixPath()
        for part in (inside, *inside.parents):
            yield root / point.relative_to("/") / part, version


def _own_groups(root: Path) -> dict[_Files, PurePosixPath]:
    """Lines of `ID:CONTROLLERS:PATH`; version 2 has no controllers there."""
    found = {}
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                found[_VERSION_2] = PurePosixPath(path)
            elif "memory" in controllers.split(","):
                found[_VERSION_1] = PurePosixPath(path)
    return found


def _mounts(root: Path) -> Iterator[tuple[PurePosixPath, PurePosixPath, _Files]]:
    """Lines of `... ROOT POINT OPTIONS ... - TYPE SOURCE OPTIONS`: which part of the hierarchy is mounted where."""
    with suppress(OSError):
        for line in (root / "proc/self/mountinfo").read_text().splitlines():
            before, _, after = line.partition(" - ")
            words, (kind, _, options) = before.split(" "), after.split(" ", 2)
            if kind == "cgroup2" or (kind == "cgroup" and "memory" in options.split(",")):
                version = _VERSION_2 if kind == "cgroup2" else _VERSION_1
                yield PurePosixPath(_unescape(words[3])), PurePosixPath(_unescape(words[4])), version


def _unescape(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")

"""The memory of a container is its group's, not the machine's; the kernel's files of both versions are read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from prover import memory as module
from prover.circuits import definitions
from prover.circuits.errors import CircuitTooLarge
from prover.filecoin.shapes import ProofKind, post_shape
from prover.memory import Memory, memory

MIB = 1 << 20
UNLIMITED_1 = 0x7FFFFFFFFFFFF000  # as version 1 writes it
V1_LINE = "31 30 0:27 {root} /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory"
V2_LINE = "29 23 0:26 {root} /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"


@dataclass(frozen=True)
class Machine:
    """A machine of 1 TiB, of which 512 GiB are available."""

    total: int = 1 << 40
    available: int = 1 << 39


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", Machine)


def proc(root: Path, groups: str, *mounts: str) -> None:
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(groups)
    (root / "proc/self/mountinfo").write_text("".join(f"{line}\n" for line in ("1 0 8:1 / / rw - ext4 x rw", *mounts)))


def v2(folder: Path, limit: int | str, used: int, spare: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 1\ninactive_file_x 9\ninactive_file {spare}\nactive_file 5\n")


def v1(folder: Path, limit: int, used: int, spare: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"inactive_file 3\ntotal_inactive_file {spare}\n")


def test_without_groups_it_is_the_machines(tmp_path: Path) -> None:
    assert memory(tmp_path) == Memory(1 << 40, 1 << 39)


def test_version_2_in_a_container(tmp_path: Path) -> None:
    """With a namespace of its own, the process is at the root of what it sees."""
    proc(tmp_path, "0::/\n", V2_LINE.format(root="/"))
    v2(tmp_path / "sys/fs/cgroup", 800 * MIB, 500 * MIB, 100 * MIB)
    assert memory(tmp_path) == Memory(800 * MIB, 400 * MIB)


def test_the_tightest_of_the_groups_around_counts(tmp_path: Path) -> None:
    proc(tmp_path, "0::/cuzk.slice/prover.service\n", V2_LINE.format(root="/"))
    groups = tmp_path / "sys/fs/cgroup"
    v2(groups / "cuzk.slice", 900 * MIB, 850 * MIB)  # a neighbour uses most of it
    v2(groups / "cuzk.slice/prover.service", "max", 100 * MIB)
    assert memory(tmp_path) == Memory(900 * MIB, 50 * MIB)
    v2(groups / "cuzk.slice/prover.service", 120 * MIB, 100 * MIB)
    assert memory(tmp_path) == Memory(120 * MIB, 20 * MIB)
    v2(groups / "cuzk.slice/other.service", 1, 1)  # not ours
    assert memory(tmp_path) == Memory(120 * MIB, 20 * MIB)


def test_version_1(tmp_path: Path) -> None:
    """Beside an empty hierarchy of version 2, as systemd mounts one; one group without a limit."""
    unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"
    cpu = "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu"
    proc(tmp_path, "4:cpu,memory:/jobs/7\n1:cpuset:/\n0::/\n", cpu, V1_LINE.format(root="/"), unified)
    groups = tmp_path / "sys/fs/cgroup/memory"
    v1(groups, UNLIMITED_1, 1 << 38)
    v1(groups / "jobs/7", 700 * MIB, 600 * MIB, 250 * MIB)
    assert memory(tmp_path) == Memory(700 * MIB, 350 * MIB)


@pytest.mark.parametrize("root", ["/docker/abc", "/"])
def test_version_1_in_a_container_that_sees_the_hosts_paths(tmp_path: Path, root: str) -> None:
    proc(tmp_path, "4:memory:/docker/abc\n", V1_LINE.format(root=root))
    v1(tmp_path / "sys/fs/cgroup/memory", 300 * MIB, 100 * MIB)
    assert memory(tmp_path) == Memory(300 * MIB, 200 * MIB)


def test_more_used_than_allowed_is_nothing_left(tmp_path: Path) -> None:
    proc(tmp_path, "0::/\n", V2_LINE.format(root="/"))
    v2(tmp_path / "sys/fs/cgroup", 10 * MIB, 12 * MIB)
    assert memory(tmp_path) == Memory(10 * MIB, 0)


@pytest.mark.parametrize("text", ["", "rubbish", "-1x", "max"])
def test_files_that_cannot_be_read_limit_nothing(tmp_path: Path, text: str) -> None:
    proc(tmp_path, "0::/\n", V2_LINE.format(root="/"))
    v2(tmp_path / "sys/fs/cgroup", text, 5)
    assert memory(tmp_path).total == 1 << 40


def test_recording_asks_for_the_groups_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the kernel would end the process instead."""
    monkeypatch.setattr(definitions, "memory", lambda: Memory(64 * MIB, 1 * MIB))
    with pytest.raises(CircuitTooLarge, match="1 are free"):
        definitions.record(post_shape(ProofKind.WINDOW_POST, 2048))


def test_this_machine_is_read_without_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    found, whole = module.memory(), psutil.virtual_memory()
    assert 0 <= found.available <= found.total <= whole.total and found.total > 0

"""The key directory: keys are found, checked once, said to be local, and never overwritten."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prover.filecoin.published import Manifest, PublishedFile, file_digest
from prover.groth16 import store
from prover.groth16.errors import KeyExists, KeyFileDamaged, KeyNotFound, KeyWriteFailed
from prover.groth16.keys import Parameters
from prover.groth16.store import LOCAL_WARNING, UNKNOWN_WARNING, KeyStore, Origin
from tests.groth16.vectors import DATA, verifying_key

TINY = DATA / "2k" / "tiny.params"
NAME = "v28-proof-of-spacetime-fallback-merkletree-poseidon_hasher-8-0-0-" + 64 * "7"


@pytest.fixture
def keys(tmp_path: Path) -> KeyStore:
    """A directory with one key that came from elsewhere: no marker, no record."""
    shutil.copy(TINY, tmp_path / f"{NAME}.params")
    shutil.copy(DATA / "2k" / "tiny.vk", tmp_path / f"{NAME}.vk")
    return KeyStore(tmp_path)


def added(directory: Path) -> KeyStore:
    keys = KeyStore(directory)
    keys.add(NAME, Parameters.open(TINY), sector_size=2048, known_scalars=True)
    return keys


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_an_empty_or_missing_directory_has_no_keys(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "none")
    assert keys.entries() == []
    with pytest.raises(KeyNotFound, match=NAME):
        keys.open(NAME)


@pytest.mark.parametrize("name", ["../../etc/passwd", "v28-/../x", "passwd"])
def test_a_name_cannot_leave_the_directory(name: str, keys: KeyStore) -> None:
    with pytest.raises(KeyNotFound):
        keys.find(name)


def test_a_foreign_key_is_checked_once_and_recorded(keys: KeyStore) -> None:
    seen: list[float] = []
    assert keys.find(NAME).digest is None
    parameters = keys.open(NAME, seen.append)
    assert seen and seen == sorted(seen) and seen[-1] <= 1
    entry = keys.find(NAME)
    assert (entry.digest, entry.local, entry.warning) == (parameters.digest(), False, UNKNOWN_WARNING)
    seen.clear()
    keys.open(NAME, seen.append)
    assert seen == []


class TestPublished:
    """A store for which the tiny key is a published one."""

    @staticmethod
    def manifest(params: str | None = None) -> Manifest:
        files = {
            "params": params or file_digest(TINY.read_bytes()),
            "vk": file_digest((DATA / "2k/tiny.vk").read_bytes()),
        }
        return {f"{NAME}.{end}": PublishedFile(f"{NAME}.{end}", "", digest, 2048) for end, digest in files.items()}

    def test_is_for_the_chain(self, keys: KeyStore) -> None:
        known = KeyStore(keys.directory, self.manifest())
        assert known.find(NAME).origin is Origin.PUBLISHED  # by its verifying key, before its points are looked at
        known.open(NAME)
        assert (known.find(NAME).origin, known.find(NAME).warning) == (Origin.PUBLISHED, None)

    def test_without_a_vk_file(self, keys: KeyStore) -> None:
        keys.path(NAME, "vk").unlink()
        assert KeyStore(keys.directory, self.manifest()).find(NAME).origin is Origin.PUBLISHED

    def test_other_parameters_behind_its_verifying_key_are_damaged(self, keys: KeyStore) -> None:
        known = KeyStore(keys.directory, self.manifest(params="0" * 32))
        for use in (known.check, known.open):
            with pytest.raises(KeyFileDamaged, match=f"the published file {'0' * 32}") as caught:
                use(NAME)
            assert caught.value.field == f"{NAME}.params"
        assert not keys.path(NAME, "checked").exists()

    def test_a_record_of_before_does_not_help(self, keys: KeyStore) -> None:
        keys.open(NAME)
        with pytest.raises(KeyFileDamaged, match="the published file"):
            KeyStore(keys.directory, self.manifest(params="0" * 32)).open(NAME)

    def test_another_verifying_key_under_its_name_is_unknown(self, keys: KeyStore) -> None:
        files = {f"{NAME}.vk": PublishedFile(f"{NAME}.vk", "", "0" * 32, 2048)}
        entry = KeyStore(keys.directory, files).find(NAME)
        assert (entry.origin, entry.warning) == (Origin.UNKNOWN, UNKNOWN_WARNING)

    def test_a_marker_counts_more(self, tmp_path: Path) -> None:
        added(tmp_path)
        assert KeyStore(tmp_path, self.manifest()).find(NAME).warning == LOCAL_WARNING

    def test_a_damaged_verifying_key_is_listed_all_the_same(self, keys: KeyStore) -> None:
        keys.path(NAME, "vk").write_bytes(b"x")
        (entry,) = KeyStore(keys.directory, self.manifest()).entries()
        assert entry.origin is Origin.UNKNOWN


def test_the_verifying_key_of_the_largest_circuit_is_read(tmp_path: Path) -> None:
    ic = np.frombuffer(bytes(verifying_key("tiny").ic[0]) * (1 + 2349 * 11), dtype=np.uint8).reshape(-1, 96)
    (tmp_path / f"{NAME}.vk").write_bytes(replace(verifying_key("tiny"), ic=ic).to_bytes())
    assert KeyStore(tmp_path).verifying_key(NAME).num_inputs == 25_840


def test_the_digest_is_that_of_parameters_json(keys: KeyStore) -> None:
    import hashlib

    assert keys.open(NAME).digest() == hashlib.blake2b(TINY.read_bytes()).hexdigest()[:32]


def test_a_damaged_section_is_named_by_the_record(keys: KeyStore) -> None:
    keys.open(NAME)
    flip(keys.path(NAME, "params"), TINY.stat().st_size - 5)
    with pytest.raises(KeyFileDamaged, match="keys check") as caught:
        keys.open(NAME)
    assert caught.value.field == "b_g2"
    with pytest.raises(KeyFileDamaged, match="curve") as caught:
        keys.check(NAME)
    assert caught.value.field == "b_g2[1012]"


def written_in_place(path: Path) -> None:
    flip(path, TINY.stat().st_size - 5)


def written_in_place_with_its_time_set_back(path: Path) -> None:
    before = path.stat()
    flip(path, TINY.stat().st_size - 5)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replaced(path: Path) -> None:
    other = path.with_suffix(".other")
    shutil.copy2(path, other)
    flip(other, TINY.stat().st_size - 5)
    other.replace(path)


def grown(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


@pytest.mark.parametrize("change", [written_in_place, written_in_place_with_its_time_set_back, replaced, grown])
def test_a_file_that_is_not_the_checked_one_is_listed_so_and_refused(
    change: Callable[[Path], None], keys: KeyStore
) -> None:
    keys.open(NAME)
    assert not keys.find(NAME).changed
    change(keys.path(NAME, "params"))
    assert keys.find(NAME).changed
    for use in (keys.open, keys.check):
        with pytest.raises(KeyFileDamaged):
            use(NAME)
    assert keys.find(NAME).changed


@pytest.mark.parametrize("how", ["open", "check"])
def test_the_same_content_in_another_file_is_bound_anew(how: str, keys: KeyStore, tmp_path: Path) -> None:
    keys.open(NAME)
    copies = KeyStore(shutil.copytree(keys.directory, tmp_path / "copy"))
    assert copies.find(NAME).changed
    checked: list[float] = []
    getattr(copies, how)(NAME, checked.append)
    assert bool(checked) == (how == "check")
    assert not copies.find(NAME).changed


def test_a_record_that_names_no_file_is_bound_when_the_key_is_used(keys: KeyStore) -> None:
    keys.open(NAME)
    record = json.loads(keys.path(NAME, "checked").read_text())
    del record["file"]
    keys.path(NAME, "checked").write_text(json.dumps(record))
    assert keys.find(NAME).changed
    keys.open(NAME)
    assert not keys.find(NAME).changed


def test_a_damaged_key_without_a_record_is_refused_and_not_recorded(keys: KeyStore) -> None:
    flip(keys.path(NAME, "params"), 2000)
    for _ in range(2):
        with pytest.raises(KeyFileDamaged) as caught:
            keys.open(NAME)
        assert caught.value.field == "h[8]"
    assert not keys.path(NAME, "checked").exists()


@pytest.mark.parametrize("record", ["", "[]", "{", "null"])
def test_an_unreadable_record_means_a_new_check(record: str, keys: KeyStore) -> None:
    keys.path(NAME, "checked").write_text(record)
    keys.open(NAME)
    assert keys.find(NAME).digest


def test_a_verifying_key_of_another_circuit_is_refused(keys: KeyStore) -> None:
    keys.path(NAME, "vk").write_bytes(verifying_key("window").to_bytes())
    with pytest.raises(KeyFileDamaged, match="another key") as caught:
        keys.open(NAME)
    assert caught.value.field == f"{NAME}.vk"


def test_without_a_vk_file_the_key_is_read_from_the_parameters(keys: KeyStore) -> None:
    keys.path(NAME, "vk").unlink()
    assert keys.verifying_key(NAME).to_bytes() == verifying_key("tiny").to_bytes()
    assert keys.open(NAME).vk.num_inputs == 3


def test_a_huge_vk_file_is_refused_before_it_is_read(keys: KeyStore) -> None:
    with keys.path(NAME, "vk").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(KeyFileDamaged, match="larger than"):
        keys.verifying_key(NAME)


def test_a_key_made_here_says_so_everywhere(tmp_path: Path) -> None:
    keys = added(tmp_path)
    (entry,) = keys.entries()
    assert (entry.local, entry.warning, entry.changed) == (True, LOCAL_WARNING, False)
    assert entry.digest
    assert keys.path(NAME, "params").read_bytes() == TINY.read_bytes()
    assert json.loads(keys.path(NAME, "meta").read_text()) == {"sector_size": 2048}
    assert json.loads(keys.path(NAME, "local").read_text())["known_scalars"] is True


def test_a_key_made_here_stays_local_when_checked_again_and_not_when_replaced(tmp_path: Path) -> None:
    keys = added(tmp_path)
    assert keys.check(NAME).local
    marker = json.loads(keys.path(NAME, "local").read_text())
    keys.path(NAME, "local").write_text(json.dumps({**marker, "digest": 32 * "0"}))
    assert not keys.check(NAME).local


def test_a_key_is_never_overwritten(keys: KeyStore) -> None:
    before = keys.path(NAME, "params").stat()
    with pytest.raises(KeyExists, match=NAME):
        keys.add(NAME, Parameters.open(TINY), 2048, known_scalars=True)
    after = keys.path(NAME, "params").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert not keys.path(NAME, "local").exists()


def test_a_foreign_vk_alone_is_not_overwritten(keys: KeyStore) -> None:
    keys.path(NAME, "params").unlink()
    with pytest.raises(KeyExists):
        keys.add(NAME, Parameters.open(TINY), 2048, known_scalars=True)


def replaced_by_published(directory: Path) -> KeyStore:
    """A key was made here; later its files were replaced by the published ones, which were checked."""
    (directory / f"{NAME}.local").write_text(json.dumps({"digest": 32 * "0"}))
    shutil.copy(TINY, directory / f"{NAME}.params")
    shutil.copy(DATA / "2k" / "tiny.vk", directory / f"{NAME}.vk")
    keys = KeyStore(directory, TestPublished.manifest())
    keys.check(NAME)
    return keys


def test_a_published_key_that_took_the_place_of_a_local_one_is_for_the_chain(tmp_path: Path) -> None:
    """Also for who asks without having read the record, as `cuzk verify` does."""
    keys = replaced_by_published(tmp_path)
    assert keys.find(NAME).origin is keys.origin(NAME) is Origin.PUBLISHED
    assert not keys.is_local(NAME)


def test_its_vk_is_not_overwritten_when_its_parameters_are_gone(tmp_path: Path) -> None:
    keys = replaced_by_published(tmp_path)
    keys.path(NAME, "params").unlink()
    with pytest.raises(KeyExists):
        keys.add(NAME, Parameters.open(TINY), 2048, known_scalars=True)
    assert keys.path(NAME, "vk").read_bytes() == (DATA / "2k" / "tiny.vk").read_bytes()


def test_a_race_between_two_set_ups_leaves_the_first_key(tmp_path: Path) -> None:
    target = tmp_path / "x.params"
    store._write(target, [b"first"], keep_existing=True)
    with pytest.raises(KeyExists):
        store._write(target, [b"second"], keep_existing=True)
    assert target.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["x.params"]


@contextmanager
def no_file_larger_than(size: int) -> Iterator[None]:
    """The kernel refuses to write more, as a full disk does."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_set_up_that_cannot_be_written_leaves_no_key_and_can_be_made_again(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path)
    with no_file_larger_than(100_000), pytest.raises(KeyWriteFailed) as caught:
        keys.add(NAME, Parameters.open(TINY), 2048, known_scalars=True)
    assert caught.value.field == "params"
    assert keys.entries() == []
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    added(tmp_path).open(NAME)


def test_a_set_up_that_breaks_off_beside_an_older_record_can_be_made_again(tmp_path: Path) -> None:
    """Of another local key, whose parameters were removed by hand."""
    keys = added(tmp_path)
    keys.path(NAME, "params").unlink()
    for suffix in ("local", "checked"):
        keys.path(NAME, suffix).write_text(json.dumps({"digest": 32 * "1"}))
    with no_file_larger_than(100_000), pytest.raises(KeyWriteFailed):
        keys.add(NAME, Parameters.open(TINY), 2048, known_scalars=True)
    added(tmp_path).open(NAME)


def test_a_record_that_cannot_be_written_does_not_hinder_the_proof(
    keys: KeyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A directory that others own is read-only (root may write anywhere, so the failure is put in the way here)."""

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise KeyWriteFailed(f"{path}: Read-only file system")

    monkeypatch.setattr(store, "_write", refuse)
    assert keys.open(NAME).vk.num_inputs == 3
    assert keys.find(NAME).digest is None

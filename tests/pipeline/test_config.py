"""The daemon's configuration: where a setting comes from, what is refused, and that every key is documented."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from prover import config
from prover.algebra import chunks
from prover.config import ConfigurationInvalid
from prover.memory import Memory, memory
from prover.settings_text import MASK, to_toml

ROOT = Path(__file__).parents[2]


def write(folder: Path, text: str) -> Path:
    path = folder / "cuzk.toml"
    path.write_text(text)
    return path


def test_every_key_is_documented_and_no_other() -> None:
    lines = (ROOT / "docs" / "configuration.md").read_text().splitlines()
    cells = [
        line.split("|")[1].strip().strip("`") for line in lines if line.startswith("| `") and "." in line.split("|")[1]
    ]
    assert sorted(cells) == sorted(config.keys())


def test_defaults_need_nothing() -> None:
    loaded = config.load(None, {})
    assert loaded.pipeline.enabled and loaded.pipeline.split
    assert loaded.gpus.gpu_workers_per_device == 2 and loaded.gpus.devices == ()
    assert loaded.gpus.devices_per_proof == 1
    assert loaded.device_threads >= 1 and loaded.synthesis_threads >= 1 and loaded.synthesis_workers >= 1


def test_flags_win_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = write(
        tmp_path, "[gpus]\ncpu_devices = 2\ngpu_workers_per_device = 3\ndevices = [1]\n[pipeline]\nenabled = false\n"
    )
    environment = {"CUZK_GPUS__CPU_DEVICES": "4", "CUZK_GPUS__GPU_WORKERS_PER_DEVICE": "5"}
    loaded = config.load(path, environment, ["gpus.gpu_workers_per_device=6", "gpus.devices=0,2"])
    assert (loaded.gpus.cpu_devices, loaded.gpus.gpu_workers_per_device) == (4, 6)
    assert loaded.gpus.devices == (0, 2) and not loaded.pipeline.enabled


def test_names_of_the_stack_are_understood() -> None:
    environment = {
        "CUZK_DISABLE_SPLIT_PROVE": "1", "DATABASE_URL": "postgresql:///other", "FIL_PROOFS_PARAMETER_CACHE": "/keys",
        "CUZK_SECRET_KEY": "of the web, not ours",
    }  # fmt: skip
    loaded = config.load(None, environment)
    assert not loaded.pipeline.split
    assert loaded.daemon.database_url == "postgresql:///other" and loaded.srs.param_cache == Path("/keys")


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600), ("90s", 90), ("1h", 3600), ("250ms", 0.25), ("7", 7), ("1.5m", 90)]
)
def test_durations(text: str, seconds: float) -> None:
    assert config.load(None, {}, [f"daemon.drain_timeout={text}"]).daemon.drain_timeout == seconds


def test_sizes() -> None:
    assert config.load(None, {}, ["memory.host_memory=512MiB"]).memory.host_memory == 512 << 20
    assert config.load(None, {}, ["memory.host_memory=auto"]).memory.host_memory is None


def test_memory_of_tables_is_the_smaller_of_host_and_device_and_the_same_for_each_kind() -> None:
    """By default a quarter of the host's and half of a device's own."""
    total = memory().total

    def share(*flags: str, device: int | None = None) -> int:
        return config.load(None, {}, flags).table_bytes(device)

    assert share() == total // 4 // 4 and share(device=1 << 30) == 1 << 27
    assert share("memory.host_memory=1GiB") == share("memory.host_memory=1GiB", device=1 << 40) == 1 << 28
    assert share("memory.host_memory=1GiB", "memory.device_memory=512MiB", device=1 << 40) == 1 << 27
    assert share("memory.host_memory=1GiB", "memory.device_memory=512MiB") == 1 << 27, "a CPU's memory is the host's"
    assert share("memory.host_memory=0") == 0


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("[gpus]\ngpu_worker_per_device = 1", "gpus.gpu_worker_per_device", "did you mean gpus.gpu_workers_per_device"),
        ("[gpu]\ndevices = [0]", "gpu.devices", "did you mean gpus.devices"),
        ("[daemon]\nlisten = 'x'", "daemon.listen", "neither unix:///PATH nor HOST:PORT"),
        ("[daemon]\nlisten = 'unix://x'", "daemon.listen", "absolute path"),
        ("[daemon]\nlisten = '127.0.0.1:99999'", "daemon.listen", "0 to 65535"),
        ("[daemon]\nstatus_listen = 'unix:///x'", "daemon.status_listen", "over TCP alone"),
        ("[daemon]\nmax_message = '129MiB'", "daemon.max_message", "less than or equal"),
        ("[daemon]\nstatus_origin = 'a b'", "daemon.status_origin", "pattern"),
        ("[memory]\ntotal_budget = 'much'", "memory.total_budget", "no size"),
        ("[memory]\neviction_min_idle = 'soon'", "memory.eviction_min_idle", "no duration"),
        ("[srs]\npreload = ['wpost-32q']", "srs.preload", "is none of"),
        ("[gpus]\ncpu_devices = 0", "gpus.cpu_devices", "greater than or equal to 1"),
        ("[gpus]\ndevices_per_proof = 0", "gpus.devices_per_proof", "greater than or equal to 1"),
        ("[gpus]\nplatform = 'tpu'", "gpus.platform", "'cpu' or 'gpu'"),
        ("[daemon]\nprover = 'a/b'", "daemon.prover", "match pattern"),
        ("[daemon]\nprover = 'a:b'", "daemon.prover", "match pattern"),
        ("[daemon]\ndrain_timeout = 'soon'", "daemon.drain_timeout", "no duration"),
        ("[daemon]\ndrain_timeout = inf", "daemon.drain_timeout", "finite"),
        ("[daemon]\ndrain_timeout = '1m30'", "daemon.drain_timeout", "no duration"),
        ("[gpus]\ngpu_threads = true", "gpus", "gpu_threads is no switch"),
        ("[logging]\nlevel = 'loud'", "logging.level", "'debug', 'info', 'warning' or 'error'"),
        ("[memory]\nhost_memory = 1.5", "memory.host_memory", "no size"),
        ("[memory]\nhost_memory = '50 gigs'", "memory.host_memory", "no size"),
        ("[gpus]\ntable_budget = '1GiB'", "gpus.table_budget", "is memory.host_memory now"),
        ("[memory]\nhost_memory = 'lots'", "memory.host_memory", "no size"),
        ("[memory]\ndevice_memory = -1", "memory.device_memory", "byte"),
        ("[memory]\ndevice_chunk = '1MiB'", "memory.device_chunk", f"greater than or equal to {chunks.LEAST}"),
        ("pipeline = true", "pipeline", "section"),
        ("[nonsense]", "nonsense", "no such key"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, field: str, message: str) -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        config.load(write(tmp_path, text), {})
    assert caught.value.field == field and message in str(caught.value)
    assert "cuzk.toml" in str(caught.value) or field == "gpus", "where it was said"


def test_the_budget_is_all_memory_but_a_margin_unless_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def budget(*flags: str, machine: int = 256) -> float:
        monkeypatch.setattr(config, "memory", lambda: Memory(machine << 30, 0))
        return config.load(None, {}, flags).budget_bytes() / 2**30

    assert budget() == 251 and budget(machine=8) == 6, "of a small machine a quarter is left"
    assert budget("memory.safety_margin=10GiB") == 246 and budget("memory.safety_margin=10GiB", machine=8) == 0
    assert budget("memory.total_budget=64GiB", "memory.safety_margin=10GiB") == 64
    loaded = config.load(None, {}, ["srs.preload=wpost-2k,window-post-32GiB", "memory.eviction_min_idle=5m"])
    assert loaded.srs.preload == ("wpost-2k", "window-post-32GiB") and loaded.memory.eviction_min_idle == 300


def test_a_misspelt_variable_or_flag_is_refused() -> None:
    with pytest.raises(ConfigurationInvalid, match=r"gpus\.cpu_devices"):
        config.load(None, {"CUZK_GPUS__CPU_DEVICE": "2"})
    with pytest.raises(ConfigurationInvalid, match=r"gpus\.cpu_devices"):
        config.load(None, {}, ["gpus.cpu_device=2"])
    with pytest.raises(ConfigurationInvalid, match="not of the form"):
        config.load(None, {}, ["gpus.cpu_devices"])


def test_a_file_that_is_not_there_or_no_toml_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationInvalid, match="No such file"):
        config.load(tmp_path / "missing.toml", {})
    with pytest.raises(ConfigurationInvalid, match="no TOML"):
        config.load(write(tmp_path, "[gpus"), {})


#: of the original daemon, all of its keys
_ORIGINAL = {
    "daemon": "listen status_listen",
    "memory": "total_budget safety_margin eviction_min_idle pinned_budget working_memory_budget",
    "gpus": "devices gpu_threads gpu_workers_per_device",
    "scheduler": "max_batch_size max_batch_wait_ms sort_by_type",
    "synthesis": "threads partition_workers",
    "pipeline": "enabled synthesis_lookahead synthesis_concurrency max_parallel_synthesis slot_size "
    "max_gpu_queue_depth",
    "srs": "param_cache preload",
    "logging": "level format",
}


@pytest.mark.parametrize("key", [f"{section}.{name}" for section, names in _ORIGINAL.items() for name in names.split()])
def test_a_key_of_the_original_is_honoured_or_refused_with_the_reason(tmp_path: Path, key: str) -> None:
    if key in set(config.keys()):
        return  # that it is read is the next test's
    section, _, name = key.partition(".")
    with pytest.raises(ConfigurationInvalid, match=r"this key of the original is not here: \w+.*cuzk.toml line 2"):
        config.load(write(tmp_path, f"[{section}]\n{name} = 1"), {})


def test_no_key_is_dead() -> None:
    """Somebody reads each of them."""
    read = {access for path in (ROOT / "prover").rglob("*.py") for access in _accesses(ast.parse(path.read_text()))}
    assert set(config.keys()) <= read


def _accesses(tree: ast.Module) -> Iterator[str]:
    """What is read as NAME.ATTRIBUTE, whatever the name belongs to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            yield f"{node.value.id if isinstance(node.value, ast.Name) else node.value.attr}.{node.attr}"


def test_variables_of_the_original() -> None:
    environment = {
        "CUZK_GPU_THREADS": "3", "RUST_LOG": "h2=off,WARN", "CUZK_DISABLE_PCE": "1", "CUZK_VALIDATE_PARTITIONS": "1",
        "CUZK_DISABLE_SPLIT_PROVE": "0",
    }  # fmt: skip
    loaded = config.read(None, environment)
    assert loaded.config.gpus.gpu_threads == 3 and loaded.config.logging.level == "warning"
    assert loaded.config.pipeline.split
    assert loaded.origins == {"gpus.gpu_threads": "CUZK_GPU_THREADS", "logging.level": "RUST_LOG"}
    assert [note.split(maxsplit=1)[0] for note in loaded.notes] == [
        "CUZK_DISABLE_SPLIT_PROVE=0", "CUZK_DISABLE_PCE", "RUST_LOG:",
    ]  # fmt: skip
    assert config.load(None, {**environment, "CUZK_LOGGING__LEVEL": "error"}).logging.level == "error"
    with pytest.raises(ConfigurationInvalid, match=r"gpus.gpu_threads: .*\(got 'all', CUZK_GPU_THREADS\)"):
        config.load(None, {"CUZK_GPU_THREADS": "all"})


def test_a_configuration_that_is_written_down_says_where_each_value_is_from_and_gives_itself(tmp_path: Path) -> None:
    file = write(tmp_path, '[gpus]\ndevices = [0, 1]\n\n[memory]\n# some\nhost_memory = "512MiB"\n')
    environment = {"CUZK_DAEMON__DRAIN_TIMEOUT": "90s", "DATABASE_URL": "postgresql://olga:secret@db:5432/cuzk"}
    loaded = config.read(file, environment, ["pipeline.split=false"])
    text = to_toml(loaded)
    for line in (
        f"devices = [0, 1]  # {file} line 2", f'host_memory = "512MiB"  # {file} line 6',
        'drain_timeout = "90s"  # CUZK_DAEMON__DRAIN_TIMEOUT', "split = false  # the command line",
        'device_memory = "auto"  # default', f'database_url = "postgresql://olga:{MASK}@db:5432/cuzk"  # DATABASE_URL',
    ):  # fmt: skip
        assert line in text.splitlines()
    sections = [name for name, values in tomllib.loads(text).items() for _ in values]
    assert len(sections) + text.count(" is not set  #") == len(set(config.keys()))
    again = config.load(write(tmp_path, text), {}, [f"daemon.database_url={environment['DATABASE_URL']}"])
    assert again == loaded.config


@pytest.mark.parametrize(
    ("url", "masked"),
    [
        ("postgresql:///cuzk", "postgresql:///cuzk"),
        ("postgresql://h/d?user=a&password=secret", None),
        ("host=h user=a password=secret", None),
        ("no url at all", MASK),
    ],
)
def test_no_password_is_written_down(url: str, masked: str | None) -> None:
    text = tomllib.loads(to_toml(config.read(None, {"DATABASE_URL": url})))["daemon"]["database_url"]
    assert "secret" not in text and (text == masked if masked else MASK in text)


def test_which_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "DEFAULT_FILE", tmp_path / "cuzk.toml")
    assert config.file_to_read(None, {}) is None
    there = write(tmp_path, "")
    assert config.file_to_read(None, {}) == there
    assert config.file_to_read(None, {"CUZK_CONFIG": "/other"}) == Path("/other")
    assert config.file_to_read(Path("/named"), {"CUZK_CONFIG": "/other"}) == Path("/named")

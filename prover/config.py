"""The daemon's configuration: a TOML file, overridden by the environment, overridden by flags.

docs/configuration.md has every key. What is not known is refused, with a suggestion: a misspelt key must not pass.
`read` also tells where each value comes from.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from . import original_environment
from .errors import InvalidInput
from .filecoin.circuit_ids import circuit_of
from .filecoin.errors import CircuitUnknown
from .filecoin.request import MAX_REQUEST
from .filecoin.shapes import PARAMETER_CACHE, ProofKind
from .memory import DEVICE_SHARE, LEAST_CHUNK, memory
from .pipeline.progress import STUCK_AFTER
from .pipeline.retry import MAX_RETRIES, PROBE_EVERY_S, QUARANTINE_AFTER
from .service.address import parse as parse_address
from .service.address import parse_all as parse_addresses

#: read when no file is named and it is there, as by the original
DEFAULT_FILE = Path("/data/zk/cuzk.toml")
FILE_VARIABLE = "CUZK_CONFIG"  # names a file where the command line does not
PREFIX = "CUZK_"  # of the environment: CUZK_GPUS__CPU_DEVICES=2 sets gpus.cpu_devices
#: environment names of the stack that mean one of our keys
_ALIASES = {"DATABASE_URL": "daemon.database_url", "FIL_PROOFS_PARAMETER_CACHE": "srs.param_cache"}
#: keys of the original daemon that this one does not have, and why
_NOT_HERE = {
    "memory.pinned_budget": "deprecated in the original; there are no pinned buffers",
    "memory.working_memory_budget": "deprecated in the original; memory.device_chunk bounds what a device works on",
    "scheduler.max_batch_size": "partitions are synthesised and proved one by one, and share their kind's key",
    "scheduler.max_batch_wait_ms": "there are no batches, so nothing waits for one to fill",
    "scheduler.sort_by_type": "the queue's order is fixed: priority, deadline, submission",
    "synthesis.partition_workers": "deprecated in the original; use pipeline.max_parallel_synthesis",
    "pipeline.synthesis_lookahead": "the number of synthesised partitions follows from the workers",
    "pipeline.synthesis_concurrency": "use pipeline.max_parallel_synthesis",
    "pipeline.slot_size": "a path of the original that is not here",
}
#: keys that take several values
_LISTS = frozenset({"gpus.devices", "srs.preload"})
#: keys of our own that have another name now
_RENAMED = {"gpus.table_budget": "memory.host_memory"}
#: of a machine's memory the budget leaves so much where nothing is said, but no more than this part
_MARGIN = 5 << 30
_MARGIN_SHARE = 4
#: where nothing is said, bases and tables get this part of the host's memory
_HOST_SHARE = 4
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", re.ASCII)
_UNITS = {"ms": 0.001, None: 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_SIZE = re.compile(r"\d+(\.\d+)?\s*([KMGTP]i?B|B)?", re.ASCII | re.IGNORECASE)
_LEVELS = {"warn": "warning", "trace": "debug"}  # the original's words


class ConfigurationInvalid(InvalidInput):
    """The configuration is not valid."""

    code = "configuration_invalid"


def _seconds(value: object) -> object:
    """ "90s", "10m", "1h" or plain seconds."""
    if not isinstance(value, str):
        return value
    match = _DURATION.fullmatch(value.strip())
    if match is None:
        raise ValueError("no duration: it is written 500ms, 90s, 10m, 1h, or in seconds")
    return float(match[1]) * _UNITS[match[2]]


Seconds = Annotated[float, BeforeValidator(_seconds), Field(ge=0, allow_inf_nan=False)]


def _size(value: object) -> object:
    """ "auto" or a size."""
    if value == "auto":
        return None
    if isinstance(value, float) or (isinstance(value, str) and not _SIZE.fullmatch(value.strip())):
        raise ValueError("no size: it is written 512MiB, 1GiB, 2GB, or in bytes")
    return value


def _chunk(value: ByteSize | None) -> ByteSize | None:
    if value is not None and value < LEAST_CHUNK:
        raise ValueError(f"should be greater than or equal to {LEAST_CHUNK}")
    return value


def _circuit(value: str) -> str:
    try:
        circuit_of(value)
    except CircuitUnknown as error:
        raise ValueError(error.message) from None
    return value


def _level(value: object) -> object:
    """The words of the original are understood too."""
    return _LEVELS.get(value.lower(), value.lower()) if isinstance(value, str) else value


#: None: chosen by the machine
Size = Annotated[ByteSize | None, BeforeValidator(_size)]


def _addresses(text: str) -> str:
    """Those of a gRPC service: what pydantic is told of a ValueError names the key."""
    parse_addresses(text)
    return text


def _address(text: str) -> str:
    """None, or one of TCP."""
    if text and parse_address(text).path is not None:
        raise ValueError("the status is served over TCP alone: HOST:PORT")
    return text


#: a file, or none
OptionalPath = Annotated[Path | None, BeforeValidator(lambda value: None if value == "" else value)]


def _cache_home() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cuzk"


class Section(BaseModel):
    """Part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_truth_for_numbers(cls, values: Any) -> Any:
        """TOML's true is no 1: a flag in the place of a number is a mistake."""
        for name, value in values.items() if isinstance(values, dict) else ():
            if isinstance(value, bool) and name in cls.model_fields and cls.model_fields[name].annotation is not bool:
                raise ValueError(f"{name} is no switch: true and false mean nothing here")
        return values


class Daemon(Section):
    """The process and what it shares."""

    prover: str = Field(default_factory=socket.gethostname, min_length=1, max_length=200, pattern=r"^[^/:\s]+$")
    database_url: str = "postgresql:///cuzk"
    spool: Path = Field(default_factory=lambda: _cache_home() / "spool")
    drain_timeout: Seconds = 600.0
    listen: Annotated[str, AfterValidator(_addresses)] = ""
    status_listen: Annotated[str, AfterValidator(_address)] = ""
    status_origin: str = Field("", max_length=300, pattern=r"^(|\*|https?://[!-~]+)$")
    token_file: OptionalPath = None
    tls_certificate: OptionalPath = None
    tls_key: OptionalPath = None
    allow_insecure: bool = False
    allow_local_keys: bool = False
    max_message: Annotated[ByteSize, BeforeValidator(_size), Field(ge=1 << 20, le=MAX_REQUEST)] = ByteSize(MAX_REQUEST)


class Gpus(Section):
    """Devices and their workers."""

    platform: Literal["cpu", "gpu"] = "cpu"
    devices: tuple[Annotated[int, Field(ge=0)], ...] = ()
    cpu_devices: int = Field(1, ge=1, le=64)
    devices_per_proof: int = Field(1, ge=1, le=64)
    gpu_workers_per_device: int = Field(2, ge=1, le=16)
    gpu_threads: int = Field(0, ge=0, le=1024)


class Memory(Section):
    """How much memory all work may take, and of it bases and tables."""

    total_budget: Size = None
    safety_margin: Size = None
    eviction_min_idle: Seconds = 300.0
    host_memory: Size = None
    device_memory: Size = None
    device_chunk: Annotated[Size, AfterValidator(_chunk)] = None


class Synthesis(Section):
    """Witness and a, b, c."""

    threads: int = Field(0, ge=0, le=1024)


class Pipeline(Section):
    """How proving is laid out."""

    enabled: bool = True
    split: bool = True
    max_parallel_synthesis: int = Field(0, ge=0, le=256)
    max_gpu_queue_depth: int = Field(0, ge=0, le=1024)


class Scheduler(Section):
    """Which job comes next."""

    ageing: Seconds = 3600.0
    cancel_missed: bool = False


class Failures(Section):
    """What becomes of failures."""

    max_retries: int = Field(MAX_RETRIES, ge=0, le=100)
    retry_backoff: Seconds = 1.0
    quarantine_after: int = Field(QUARANTINE_AFTER, ge=2, le=1000)
    probe_every: Annotated[Seconds, Field(ge=0.1)] = PROBE_EVERY_S
    stuck_after: int = Field(STUCK_AFTER, ge=2, le=1000)


class Srs(Section):
    """Keys."""

    param_cache: Path = Path(PARAMETER_CACHE)
    make_missing: bool = False
    preload: tuple[Annotated[str, AfterValidator(_circuit)], ...] = ()


class Cache(Section):
    """What may be made again: recorded circuits, compiled programs."""

    directory: Path = Field(default_factory=_cache_home)


class Logging(Section):
    """The log, on stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], BeforeValidator(_level)] = "info"
    format: Literal["text", "json"] = "text"


S = TypeVar("S", bound=Section)


def _all_defaults(section: type[S]) -> Callable[[], S]:
    return lambda: section.model_validate({})


class Config(Section):
    """All of it. `load` reads it; every field has a default."""

    daemon: Daemon = Field(default_factory=_all_defaults(Daemon))
    gpus: Gpus = Field(default_factory=_all_defaults(Gpus))
    memory: Memory = Field(default_factory=_all_defaults(Memory))
    synthesis: Synthesis = Field(default_factory=_all_defaults(Synthesis))
    pipeline: Pipeline = Field(default_factory=_all_defaults(Pipeline))
    scheduler: Scheduler = Field(default_factory=_all_defaults(Scheduler))
    failures: Failures = Field(default_factory=_all_defaults(Failures))
    srs: Srs = Field(default_factory=_all_defaults(Srs))
    cache: Cache = Field(default_factory=_all_defaults(Cache))
    logging: Logging = Field(default_factory=_all_defaults(Logging))

    @property
    def device_threads(self) -> int:
        """CPU threads of one device phase: all, unless it is limited."""
        return self.gpus.gpu_threads or cpus()

    def budget_bytes(self) -> int:
        """Memory that partitions and keys may reserve together: what is set, or all but a margin."""
        if self.memory.total_budget is not None:
            return self.memory.total_budget
        total, margin = memory().total, self.memory.safety_margin
        return max(0, total - (min(_MARGIN, total // _MARGIN_SHARE) if margin is None else margin))

    def table_bytes(self, device_memory: int | None = None) -> int:
        """Memory for the bases and tables of one kind's key: all kinds get the same. `device_memory` is what the
        smallest device has of its own; a CPU device has none: its memory is the host's."""
        host, device = self.memory.host_memory, self.memory.device_memory
        bounds = [memory().total // _HOST_SHARE if host is None else host]
        bounds += [device] if device is not None else []
        bounds += [device_memory // DEVICE_SHARE] if device is None and device_memory is not None else []
        return min(bounds) // len(ProofKind)

    @property
    def synthesis_threads(self) -> int:
        """CPU threads of one synthesis: half, unless it is set."""
        return self.synthesis.threads or max(1, cpus() // 2)

    @property
    def synthesis_workers(self) -> int:
        """Partitions that are synthesised at a time: one for every four CPUs, unless it is set."""
        return self.pipeline.max_parallel_synthesis or max(1, cpus() // 4)


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def keys() -> Iterator[str]:
    """Every key, as section.key."""
    for section, field in Config.model_fields.items():
        assert isinstance(field.annotation, type) and issubclass(field.annotation, Section)
        yield from (f"{section}.{key}" for key in field.annotation.model_fields)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration, where each value that is no default comes from, and what in the environment has no effect."""

    config: Config
    origins: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Said:
    """One setting, as it was said somewhere."""

    key: str
    value: object
    origin: str


def load(
    path: Path | None = None, environment: Mapping[str, str] = os.environ, flags: Sequence[str] = ()
) -> Config:  # fmt: skip
    """The configuration of a TOML file (None: defaults), the environment, and flags of the form section.key=value.

    Raises ConfigurationInvalid, which names the key, where it was said and, for one that is not known, what may have
    been meant.
    """
    return read(path, environment, flags).config


def read(
    path: Path | None = None, environment: Mapping[str, str] = os.environ, flags: Sequence[str] = ()
) -> Loaded:  # fmt: skip
    """As `load`, with the origins."""
    notes: list[str] = []
    said = [*(_file(path) if path is not None else ()), *_environment(environment, notes), *map(_flag, flags)]
    values: dict[str, dict[str, object]] = {}
    origins: dict[str, str] = {}
    for each in said:
        section, _, name = each.key.partition(".")
        values.setdefault(section, {})[name] = each.value
        origins[each.key] = each.origin
    try:
        return Loaded(Config.model_validate(values), origins, tuple(notes))
    except ValidationError as error:
        raise _explained(error, origins) from None


def file_to_read(named: Path | None, environment: Mapping[str, str] = os.environ) -> Path | None:
    """The daemon's file: the one that is named, else that of CUZK_CONFIG, else the original's place if it is there."""
    if named is not None:
        return named
    if environment.get(FILE_VARIABLE):
        return Path(environment[FILE_VARIABLE])
    return DEFAULT_FILE if DEFAULT_FILE.exists() else None


def _file(path: Path) -> Iterator[_Said]:
    try:
        text = path.read_text()
        content = tomllib.loads(text)
    except OSError as error:
        raise ConfigurationInvalid(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationInvalid(f"{path} is no TOML: {error}") from error
    for section, values in content.items():
        if not isinstance(values, dict):
            raise ConfigurationInvalid(f"every key belongs to a section ({path})", field=section)
        if section not in Config.model_fields and not values:
            _refuse_key(section, str(path))
        for name, value in values.items():
            origin = f"{path}{_line(text, section, name)}"
            _check_key(f"{section}.{name}", origin)
            yield _Said(f"{section}.{name}", value, origin)


def _line(text: str, section: str, name: str) -> str:
    """Where a key stands in a file, for people; empty where TOML's other spellings hide it."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if line.startswith("["):
            inside = re.fullmatch(rf"\[\s*{re.escape(section)}\s*\]\s*(#.*)?", line) is not None
        elif inside and re.match(rf"{re.escape(name)}\s*=", line):
            return f" line {number}"
    return ""


def _environment(environment: Mapping[str, str], notes: list[str]) -> Iterator[_Said]:
    """The aliases first, so that our own names win."""
    for name, key in _ALIASES.items():
        if environment.get(name):
            yield _Said(key, environment[name], name)
    for name, key, value in original_environment.settings(environment, notes):
        yield _Said(key, value, name)
    for name, text in environment.items():
        section, separator, key = name.removeprefix(PREFIX).lower().partition("__")
        if name.startswith(PREFIX) and separator and section in Config.model_fields:
            _check_key(f"{section}.{key}", name)
            yield _Said(f"{section}.{key}", _parted(f"{section}.{key}", text), name)


def _flag(text: str) -> _Said:
    key, separator, value = text.partition("=")
    if not separator:
        raise ConfigurationInvalid(f"{text!r} is not of the form section.key=value")
    _check_key(key, "the command line")
    return _Said(key, _parted(key, value), "the command line")


def _parted(key: str, text: str) -> object:
    """Lists are separated by commas where there is no TOML."""
    return tuple(filter(None, text.split(","))) if key in _LISTS else text


def _check_key(key: str, origin: str) -> None:
    if key not in set(keys()):
        _refuse_key(key, origin)


def _refuse_key(key: str, origin: str) -> None:
    if key in _RENAMED:
        raise ConfigurationInvalid(f"this key is {_RENAMED[key]} now ({origin})", field=key)
    if key in _NOT_HERE:
        raise ConfigurationInvalid(f"this key of the original is not here: {_NOT_HERE[key]} ({origin})", field=key)
    near = difflib.get_close_matches(key, [*keys(), *Config.model_fields], n=1, cutoff=0.5)
    text = f"no such key ({origin})" + (f"; did you mean {near[0]}?" if near else "")
    raise ConfigurationInvalid(text, field=key)


def _explained(error: ValidationError, origins: Mapping[str, str]) -> ConfigurationInvalid:
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"][:2])
    text = first["msg"].removeprefix("Value error, ")
    said = f", {origins[key]}" if key in origins else ""
    return ConfigurationInvalid(f"{text} (got {first['input']!r}{said})", field=key)

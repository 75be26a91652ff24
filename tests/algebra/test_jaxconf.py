"""JAX's settings: made in one place, never by an import, and a platform that is not there is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jax
import pytest

from prover import jaxconf
from prover.algebra import kernels
from prover.jaxconf import JaxAlreadyConfigured, PlatformUnavailable

MODULES = [
    "prover.jaxconf",
    *(f"prover.algebra.{m.stem}" for m in Path("prover/algebra").glob("*.py") if m.stem != "__init__"),
]


def run(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout.strip()


def test_importing_configures_nothing_and_starts_no_backend() -> None:
    code = """
import importlib, sys
import jax
before = dict(jax.config.values)
for name in sys.argv[1:]:
    importlib.import_module(name)
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
assert dict(jax.config.values) == before
print("clean")
"""
    assert run(code, *MODULES) == "clean"


def test_the_tests_prove_on_two_devices_beside_the_hosts_with_64_bit_types() -> None:
    assert len(jaxconf.devices("cpu")) == 2 and jax.devices("cpu") == [*jaxconf.devices("cpu"), kernels.host()]
    assert jax.numpy.zeros(1, jax.numpy.float64).dtype == jax.numpy.float64


def test_the_same_settings_may_be_asked_for_again_and_others_may_not() -> None:
    assert jaxconf.configure("cpu", cpu_devices=2) == jax.devices("cpu")[:2]
    with pytest.raises(JaxAlreadyConfigured, match="cpu_devices=2"):
        jaxconf.configure("cpu", cpu_devices=3)


def test_a_gpu_that_jax_lacks_is_an_error() -> None:
    if any(d.platform == "gpu" for d in jax.devices()):
        pytest.fail("this test is for machines without a GPU")
    code = """
from prover import jaxconf
try:
    jaxconf.configure("gpu")
except jaxconf.PlatformUnavailable as error:
    print(error.code)
"""
    assert run(code) == "platform_unavailable"
    with pytest.raises(PlatformUnavailable, match="'tpu'"):
        jaxconf.devices("tpu")


def test_programs_are_kept_on_disk_and_found_again(tmp_path: Path) -> None:
    code = """
import sys
from prover import jaxconf
jaxconf.configure("cpu", 1, sys.argv[1])
import jax
hits = []
jax.monitoring.register_event_listener(lambda event, **_: hits.append(event) if event.endswith("cache_hits") else None)
from prover.algebra.fields import FR
FR.decode(FR.encode(FR.bytes_of([1, 2])))
print(len(hits))
"""
    assert run(code, str(tmp_path)) == "0"
    assert list(tmp_path.iterdir())
    assert int(run(code, str(tmp_path))) >= 2

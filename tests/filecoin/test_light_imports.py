"""What the web imports starts fast and takes neither numpy nor JAX."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

PROBE = """
import json, sys
import {module}
print(json.dumps(sorted({{name.split(".")[0] for name in sys.modules}})))
"""


@pytest.mark.parametrize("module", ["prover.filecoin.request", "prover.filecoin.partitions", "prover.filecoin.sample"])
def test_import_takes_no_array_library_and_no_database(module: str) -> None:
    probe = PROBE.format(module=module)
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60)
    loaded = set(json.loads(run.stdout))
    assert "prover" in loaded
    assert loaded.isdisjoint({"numpy", "jax", "jaxlib", "django", "psycopg", "grpc"})

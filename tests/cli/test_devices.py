"""The devices of `cuzk prove`: bounded as a prover's are, by the same settings."""

from __future__ import annotations

from argparse import Namespace

import pytest

from prover import jaxconf
from prover.algebra import chunks
from prover.commands.arguments import open_devices


@pytest.mark.parametrize("count", [1, 2])
def test_devices_are_bounded_as_the_configuration_says(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxconf, "configure", lambda *_: jaxconf.devices("cpu"))
    monkeypatch.setenv("CUZK_MEMORY__DEVICE_CHUNK", "64MiB")
    monkeypatch.setenv("CUZK_MEMORY__DEVICE_MEMORY", "1MiB")
    place = open_devices(Namespace(platform="cpu", devices=count)).handle
    try:
        limit = chunks.limit_of(place)
        assert limit and limit.nbytes == 1 << 26
        assert limit.keep(1 << 20) and not limit.keep(1)
    finally:
        chunks.bound(place, None)

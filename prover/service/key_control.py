"""Loads and drops the keys of circuits, for who asks over gRPC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from prover.errors import UnsupportedProof
from prover.filecoin.shapes import CircuitShape
from prover.pipeline.devices import Device
from prover.pipeline.filecoin import FilecoinKind
from prover.pipeline.kinds import AnyKind, Report

from .errors import MethodUnavailable


class KeyControl:
    """Both calls may take minutes; those for one circuit at the same time share one load."""

    def __init__(self, kinds: Mapping[str, AnyKind], devices: Sequence[Device], report: Report) -> None:
        self._kinds, self._devices, self._report = kinds, devices, report

    def preload(self, shape: CircuitShape) -> bool:
        """Have a circuit's key on every device; whether it was there already. Raises CuzkError."""
        kind = self._kind(shape)
        missing = [device for device in self._devices if not kind.has_key(shape, device)]
        for device in missing:
            kind.preload(shape, device, self._report)
        return not missing

    def evict(self, shape: CircuitShape) -> int | None:
        """Drop a circuit's key: the bytes that are free then, None when it was not loaded. Raises CuzkError."""
        raise MethodUnavailable("this prover keeps the keys that it has loaded")

    def _kind(self, shape: CircuitShape) -> FilecoinKind:
        kind = self._kinds.get(shape.kind)
        if not isinstance(kind, FilecoinKind):
            raise UnsupportedProof(f"this prover has no keys of {shape.kind}", field="circuit_id")
        return kind

"""The way of a device with a memory of its own (a GPU), tried on a CPU device that counts as one: bases gathered there,
transforms in one program, large tiles; synthesis and tail stay on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import pytest

from prover import jaxconf
from prover.algebra import chunks, kernels, lanes, multiples
from prover.algebra.curve import G1
from prover.algebra.fields import FR
from prover.algebra.kernels import Kernel, Tiles
from prover.groth16.prover import ProvingKey, start
from tests.groth16.vectors import assignment, canon, parameters, published_proofs, recorded

#: as on a GPU one tile a call, so wide that this circuit does not fill it
WIDE = Tiles(field=1 << 12, lanes=1 << 9, batch=1, steps=16, fft=1 << 7, rows=1 << 12)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[jax.Device]:
    """A device that is no CPU for the algebra."""
    own = jaxconf.devices("cpu")[1]

    def on_cpu() -> bool:
        return kernels.device() != own

    monkeypatch.setattr(kernels, "on_cpu", on_cpu)
    monkeypatch.setattr(kernels, "_GPU", WIDE)
    lanes._identities.cache_clear()
    chunks.bound(own, chunks.Limit(1 << 30, resident=1 << 30))
    yield own
    chunks.bound(own, None)
    lanes._identities.cache_clear()  # of tiles that are as wide as this device's


def test_a_proof_is_the_published_one(device: jax.Device, monkeypatch: pytest.MonkeyPatch) -> None:
    key = ProvingKey(parameters("tiny"), recorded("tiny"), threads=2).on(device)
    key.warm_up()
    wires = assignment("tiny")
    names, call = set[tuple[str, jax.Device]](), Kernel.__call__

    def watched(kernel: Kernel, *arguments: Any, **static: Any) -> Any:
        outputs = call(kernel, *arguments, **static)
        names.update((kernel.function.__name__, place) for a in jax.tree.leaves(outputs) for place in a.devices())
        return outputs

    monkeypatch.setattr(Kernel, "__call__", watched)
    pending = start(key, wires, canon("r"), canon("s"))
    assert {place for _, place in names} == {device}
    assert {"_whole", "_take"} <= {name for name, _ in names}
    names.clear()
    assert pending.finish() == published_proofs("tiny")[1][0]
    assert {place for _, place in names} == {kernels.host()}


def test_later_proofs_on_it_trace_nothing(device: jax.Device) -> None:
    """Nor does the first, but for what gathers from tables of its sizes."""
    key = ProvingKey(parameters("tiny"), recorded("tiny")).on(device)
    key.warm_up()
    before = {kernel: kernel.programs() for kernel in Kernel.registry}
    start(key, assignment("tiny"), 5, 6)
    new = {kernel.function.__name__: kernel.programs() - count for kernel, count in before.items()}
    assert {name for name, count in new.items() if count} <= {"_take"}
    programs = kernels.compiled_programs()
    start(key, assignment("tiny"), 7, 8)
    assert kernels.compiled_programs() == programs


def test_a_device_has_its_room_again_when_tables_replace_bases(device: jax.Device) -> None:
    key, room = ProvingKey(parameters("tiny"), recorded("tiny")), 1 << 30
    limit, scalars = chunks.Limit(1 << 30, resident=room), FR.bytes_of([5] * len(parameters("tiny").h))
    chunks.bound(device, limit)
    before = key.on(device).msm("h", scalars)
    assert not limit.keep(room), "the bases are there"
    plain = key._bases["h"].layout
    key.tabulate(5 * key.nbytes)
    assert key._bases["h"].layout != plain and limit.keep(room)
    limit.drop(room)
    assert key.on(device).msm("h", scalars) == before
    assert not limit.keep(room), "the tables are there"


def test_multiples_are_made_where_they_are_asked_for(device: jax.Device) -> None:
    scalars = FR.bytes_of([1, 2, FR.p - 1])
    found = []
    for place in (kernels.host(), device, kernels.host()):
        with kernels.on(place):
            found.append(multiples.of_generator(G1, scalars).tobytes())
    assert len(set(found)) == 1

"""What a process holds is known to each of its sessions, whichever loaded it; and it holds up nobody's end."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from prover.pipeline.devices import Device
from prover.pipeline.holdings import Holdings
from prover.pipeline.kinds import Report, phase
from prover.pipeline.tracker import StatusTracker
from prover.states import Entity, FleetState, Holding, fold
from prover.states.transition import Transition
from tests.pipeline.controlled import ControlledKind, Part, Rig


def held(state: FleetState) -> dict[str, tuple[str, object]]:
    """State and bytes of each holding, by the name without the prover's."""
    views = state.views[Entity.HOLDING].items()
    return {key.partition(":")[2]: (view.state, view.detail.get("bytes")) for key, view in views}


class KeyedKind(ControlledKind):
    """Loads one key, once a process, as the real kinds do."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded = False

    def prepare(self, work: Part, device: Device, report: Report) -> None:
        if not self.loaded:
            with phase(report, "key:k@0", Holding.LOADING, {"name": "k"}) as say:
                self._step("prepare", work)
                say({"bytes": 7})
            self.loaded = True


@pytest.mark.parametrize("first_end", ["ready", "loading"])
def test_the_next_session_knows_what_the_last_one_loaded(first_end: str) -> None:
    """Also a key that a thread of the lost session is still loading: it is seen until it is ready."""
    kind, holdings = KeyedKind(), Holdings()
    lost = Rig(kinds={"controlled": kind}, holdings=holdings)
    lost.engine.start({})
    gate = kind.gate("prepare", "a")
    lost.submit("a")
    gate.await_arrival()
    if first_end == "ready":
        gate.open()
        lost.await_job("a", "done")
    lost.engine.session_lost("the lease ran out")
    lost.engine.leave()

    with Rig(kinds={"controlled": kind}, holdings=holdings, session="second") as rig:
        expected = ("ready", 7) if first_end == "ready" else ("loading", None)
        assert held(rig.state()) == {"key:k@0": expected}
        gate.open()
        rig.await_that(lambda: held(rig.state())["key:k@0"] == ("ready", 7))
        rig.submit("b")
        rig.await_job("b", "done")
        assert held(fold(rig.log)) == {"key:k@0": ("ready", 7)}
    assert not rig.anomalies and not [refused for refused in lost.anomalies if refused.move.entity is Entity.HOLDING]


def test_what_failed_is_not_told_again_and_what_ended_between_two_sessions_is() -> None:
    holdings, log = Holdings(), []
    holdings("key:early@0", Holding.LOADING, {})
    holdings("key:early@0", Holding.READY, {"bytes": 1})
    holdings("key:bad@0", Holding.LOADING, {})
    holdings("key:bad@0", Holding.FAILED, {}, reason="key_damaged")
    tracker = StatusTracker("s", "prover", sinks=[log.append])
    holdings.use(tracker)
    assert [(t.entity_id, t.new) for t in log] == [("prover:key:early@0", "ready")]
    holdings("key:bad@0", Holding.LOADING, {})
    assert held(tracker.snapshot()) == {"key:early@0": ("ready", 1), "key:bad@0": ("loading", None)}
    assert all(isinstance(said, Transition) for said in log)


ENDING = """
import sys, time
from types import SimpleNamespace
from prover import config, daemon
from prover.commands.exits import Exit
from prover.pipeline.tables import Tabulation

def run(prover):
    key = SimpleNamespace(tabulate=lambda *_: time.sleep(600))
    Tabulation(key, 1, "key:k@tables", {}, lambda *_, **__: None)
    return Exit.OK

daemon.Prover = type("Prover", (), {"__init__": lambda self, *_: None, "run": run})
sys.exit(daemon.main(config.load(None, {})))
"""


def test_tables_that_are_being_made_hold_up_no_end() -> None:
    began = time.monotonic()
    ended = subprocess.run([sys.executable, "-c", ENDING], timeout=120, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert time.monotonic() - began < 100

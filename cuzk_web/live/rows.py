"""Transitions on their way from the table to the browsers.

Within a session the dense `seq` is the order. Between sessions the fold orders by itself (prover.states.fold), so rows
of several sessions may travel in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from prover.states import Transition

from .protocol import compact

SITE: Final = "00000000-0000-0000-0000-000000000000"  # the session that numbers what the web does

COLUMNS: Final = """t.session_id::text, t.seq, (extract(epoch FROM t.at) * 1000000)::bigint, t.mono_ns, t.entity,
    t.entity_id, t.old, t.new, t.job::text, t.partition, t.attempt_no, t.worker, t.reason, t.detail"""


@dataclass(frozen=True, slots=True)
class Row:
    """A transition as it travels: where it stands in the log, and its JSON text."""

    session: str
    seq: int
    text: str


def transition(record: Sequence[Any]) -> Transition:
    """A record of COLUMNS as a transition."""
    return Transition.from_row(record)


def encode(t: Transition) -> Row:
    """The row that travels."""
    return Row(t.session, t.seq, compact(t.to_row()))

"""The state model: enums, the table of legal moves, the guards (`decide`) and the fold (`apply`). Pure Python.

The engine, the journal, the web's page and replay, and the tests all use these same functions.
"""

from .commands import (
    ACTIONS,
    JOB_ACTIONS,
    KEY_ACTIONS,
    WISHES,
    WORKER_ACTIONS,
    Action,
    Target,
    action_refusal,
    job_actions,
    job_refusal,
    offered,
)
from .decide import Move, Refused, claim_refusal, decide, unproven
from .enums import (
    ATTEMPT_ENDS,
    FRONT,
    JOB_ENDS,
    JOB_LEASED,
    JOB_NOTES,
    Activity,
    Admin,
    Anomaly,
    Attempt,
    Command,
    Entity,
    Holding,
    Job,
    Lifecycle,
)
from .fold import apply, fold, from_json
from .model import FleetState, View
from .table import legal
from .transition import JsonObject, Transition, attempt_id, device_id, worker_id

__all__ = [
    "ACTIONS",
    "ATTEMPT_ENDS",
    "FRONT",
    "JOB_ACTIONS",
    "JOB_ENDS",
    "JOB_LEASED",
    "JOB_NOTES",
    "KEY_ACTIONS",
    "WISHES",
    "WORKER_ACTIONS",
    "Action",
    "Activity",
    "Admin",
    "Anomaly",
    "Attempt",
    "Command",
    "Entity",
    "FleetState",
    "Holding",
    "Job",
    "JsonObject",
    "Lifecycle",
    "Move",
    "Refused",
    "Target",
    "Transition",
    "View",
    "action_refusal",
    "apply",
    "attempt_id",
    "claim_refusal",
    "decide",
    "device_id",
    "fold",
    "from_json",
    "job_actions",
    "job_refusal",
    "legal",
    "offered",
    "unproven",
    "worker_id",
]  # fmt: skip

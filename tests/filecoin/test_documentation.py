"""docs/requests.md tells the limits that hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from prover.filecoin import request
from prover.filecoin.proto.cuzk_pb2 import SubmitProofRequest

TEXT = (Path(__file__).parents[2] / "docs/requests.md").read_text()


@pytest.mark.parametrize("limit", ["MAX_REQUEST", "MAX_LABEL", "MAX_PARTITIONS", "MAX_NUMBER"])
def test_limits(limit: str) -> None:
    assert f" {getattr(request, limit)} " in TEXT.replace("|", " ").replace("\n", " ")


def test_every_field_is_described() -> None:
    fields = {field.name for field in SubmitProofRequest.DESCRIPTOR.fields}
    rows = {
        name.strip() for line in TEXT.splitlines() if line.startswith("| ") for name in line.split("|")[1].split(",")
    }
    assert fields <= rows

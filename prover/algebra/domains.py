"""The limit of evaluation domains, without what it takes to use them."""

from __future__ import annotations

from typing import Final

from prover.errors import InvalidInput

MAX_LOG2: Final = 24


class DomainTooLarge(InvalidInput):
    """The evaluation domain is larger than is supported."""

    code = "domain_too_large"

"""What can go wrong between the service and who asks it."""

from __future__ import annotations

from prover.errors import CuzkError, InvalidInput


class ListenInsecure(InvalidInput):
    """An address that other machines reach needs a token and TLS, or `daemon.allow_insecure`."""

    code = "listen_insecure"


class ListenFailed(CuzkError):
    """The server cannot listen on its address: another process has it, or it may not be used."""

    code = "listen_failed"


class NotAuthenticated(CuzkError):
    """The call has no token, or a wrong one."""

    code = "not_authenticated"


class LocalKeysRefused(CuzkError):
    """The key of this circuit was made here and is not for the chain; `daemon.allow_local_keys` lets it serve."""

    code = "local_keys_refused"


class DeadlineInvalid(InvalidInput):
    """The deadline is no time, or it has passed."""

    code = "deadline_invalid"


class RequestIncomplete(InvalidInput):
    """The caller did not send its whole message in time."""

    code = "request_incomplete"


class ServiceBusy(CuzkError):
    """As many requests as may wait are being read already."""

    code = "service_busy"


class ServiceDraining(CuzkError):
    """The prover is about to stop; another one, or its next start, takes the request."""

    code = "service_draining"

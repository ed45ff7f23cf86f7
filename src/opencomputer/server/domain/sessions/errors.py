"""What /v3 refuses with a code of its own (agent-sessions.md section 2.5)."""

from __future__ import annotations

from opencomputer.server.domain.errors import Conflict, Forbidden, OpenComputerError


class Unprocessable(OpenComputerError):
    """The request can be understood, but not carried out as things are set up."""

    code = "unprocessable"


class NoCredential(Unprocessable):
    """No credential for this model's provider: add one, or let the operator offer managed models."""

    code = "no_credential"


class ManagedUnavailable(Unprocessable):
    """This server's operator does not offer managed models of this provider."""

    code = "managed_unavailable"


class ModelRuntimeMismatch(Unprocessable):
    """This runtime cannot use models of this provider."""

    code = "model_runtime_mismatch"


class CredentialMismatch(Unprocessable):
    """The credential is for another provider than the model's."""

    code = "credential_mismatch"


class UnsupportedRuntime(Unprocessable):
    """This server does not have this runtime."""

    code = "unsupported_runtime"


class Unsupported(Unprocessable):
    """This runtime does not support that."""

    code = "not_supported"


class InvalidSkills(Unprocessable):
    """The skills are not valid."""

    code = "invalid_skills"


class DestinationForbidden(Unprocessable):
    """Webhooks cannot be sent to this URL."""

    code = "destination_url_forbidden"


class LimitReached(Unprocessable):
    """There cannot be more of them."""

    code = "limit_reached"


class InvalidCron(Unprocessable):
    """A schedule needs five cron fields that some day fit, and the name of a time zone, or none."""

    code = "invalid_cron"


class AgentNotDeployed(Unprocessable):
    """The agent has no active revision yet."""

    code = "agent_not_deployed"


class PayloadTooLarge(OpenComputerError):
    """The request is too large."""

    code = "payload_too_large"


class UnsupportedMediaType(OpenComputerError):
    """This media type is not accepted here."""

    code = "unsupported_media_type"


class NameConflict(Conflict):
    """Another agent has this name, and is configured differently."""

    code = "name_conflict"


class NameTaken(NameConflict):
    """The agent has another one of this name."""


class SessionArchived(Conflict):
    """The session is archived."""

    code = "session_archived"


class TurnNotKept(Conflict):
    """The state at the end of this turn is not kept, or not any more."""

    code = "turn_not_kept"


class AgentDeleted(Conflict):
    """The session's agent was deleted."""

    code = "agent_deleted"


class InsufficientScope(Forbidden):
    """The API key lacks the scope for this."""

    code = "insufficient_scope"

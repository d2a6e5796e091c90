"""spec.failurePolicy: ordered rules that decide what follows a lost attempt, as in a Job's podFailurePolicy."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from railhead.api.base import Model, rules

Action = Literal["Fail", "Restart", "RestartAndIgnore"]
# Without those that no rule can change: the job's own deadline, and a run that a later attempt owns.
RuledClass = Literal[
    "Application", "Configuration", "Hang", "Hardware", "Infrastructure", "OutOfMemory", "Preemption", "Startup"
]
Reason = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
ExitCode = Annotated[int, Field(ge=1, le=255)]
SET: dict[str, Any] = {"x-kubernetes-list-type": "set"}


class OnExitCodes(Model):
    """Codes of the user's process."""

    operator: Literal["In", "NotIn"] = Field(description="Whether the exit code is one of values, or none of them.")
    values: list[ExitCode] = Field(min_length=1, max_length=255, description="Exit codes.", json_schema_extra=SET)


class FailureRule(Model):
    """One rule."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "",
                "[has(self.onExitCodes), has(self.onReason), has(self.onClass)].filter(isSet, isSet).size() == 1",
                "exactly one of onExitCodes, onReason and onClass must be set",
            ),
        )
    )
    action: Action = Field(
        description="Fail: the job fails. Restart: another attempt follows, also after class Configuration, and the "
        "limits count as without a rule. RestartAndIgnore: another attempt follows after a backoff, and no limit "
        "counts the lost one.",
    )
    on_exit_codes: OnExitCodes | None = Field(
        default=None,
        description="The exit code of trainer.entrypoint's process (128 + n after signal n), or the code with which a "
        "rank called sys.exit(); status.failure.processExitCode. Ray does not tell the code of a rank that was killed "
        "or called os._exit(): then no such rule matches.",
    )
    on_reason: list[Reason] | None = Field(
        default=None,
        min_length=1,
        max_length=32,
        description="status.failure.reason is one of these.",
        json_schema_extra=SET,
    )
    on_class: list[RuledClass] | None = Field(
        default=None,
        min_length=1,
        max_length=8,
        description="status.failure.class is one of these.",
        json_schema_extra=SET,
    )


class FailureRules(Model):
    """What follows a lost attempt."""

    rules: list[FailureRule] = Field(
        min_length=1,
        max_length=20,
        description="The first one that matches decides; without one, the class of the failure does.",
    )

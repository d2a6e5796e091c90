"""CEL expressions from which the rules of several models are put together."""

from __future__ import annotations


def cpus_in(resources: str, *, default: str) -> str:
    """Returns the CPUs in a map of quantities that may be absent, as a number; `default` is an expression as well."""
    return (
        f"quantity(has({resources}) && 'cpu' in {resources} ? string({resources}['cpu']) : {default})"
        ".asApproximateFloat()"
    )


def has_cpu_room(template: str, wanted: str) -> str:
    """Returns whether the template's limit, if any, is at least `wanted`, up to float rounding."""
    return (
        f"!has({template}) || !has({template}.spec) || !has({template}.spec.containers) || "
        f"[{wanted}].all(wanted, {template}.spec.containers.all(c, c.name != 'ray' || !has(c.resources) || "
        "!has(c.resources.limits) || !('cpu' in c.resources.limits) || "
        "quantity(string(c.resources.limits['cpu'])).asApproximateFloat() > wanted - 0.0005))"
    )


def in_millis(quantity: str) -> str:
    """Returns a quantity of CPUs in thousandths, as a number."""
    return f"int(quantity(string({quantity})).asApproximateFloat() * 1000.0 + 0.5)"


def count_gpus(scaling: str, *, default: str) -> str:
    """Returns how many GPUs a worker has; without useGPU, which cannot change, the same for all.

    `default`: the name of GPUs where the job names none.
    """
    name = f"{scaling}.?gpuResourceName.orValue('{default}')"
    amounts = f"{scaling}.resourcesPerWorker"
    return f"(has({amounts}) && {name} in {amounts} ? string({amounts}[{name}]) : '1')"


def names_no_other_priority(template: str) -> str:
    """Returns whether a podTemplate names no PriorityClass, or that of the job."""
    name = f"{template}.spec.priorityClassName"
    return f"(!has({template}) || !has({template}.spec) || !has({name}) || {name} == self.scheduling.priorityClassName)"


def needs_backend_option(option: str, condition: str) -> str:
    """Returns that the backend lacks an option, or the condition for it holds."""
    return f"!has(self.trainer.backend) || !has(self.trainer.backend.{option}) || {condition}"

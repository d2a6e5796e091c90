"""Small definitions of Kueue's kinds, and its webhook's rules for Workloads as a policy of the API server.

The fields and rules are those of kubernetes-sigs/kueue, apis/kueue/v1beta2/*_types.go. The policy's rules are those
of pkg/webhooks/workload_webhook.go; they need the pod templates that the definitions leave open.
"""

from __future__ import annotations

from typing import Any

from tests.kueue.workload import Object

GROUP, VERSION = "kueue.x-k8s.io", "v1beta2"
API = f"/apis/{GROUP}/{VERSION}"
POLICY = "kueue-workload-webhook"

Schema = dict[str, Any]
TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer", "format": "int32"}
TIME: Schema = {"type": "string", "format": "date-time"}
OPEN: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
QUANTITY: Schema = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
NAME: Schema = {
    "type": "string",
    "maxLength": 253,
    "pattern": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
}
POD_SET_NAME: Schema = {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}


def struct(required: str = "", rules: tuple[tuple[str, str], ...] = (), /, **properties: Schema) -> Schema:
    """Returns the schema of an object; `required` has its names with spaces, `rules` pairs of rule and message."""
    schema: Schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required.split()
    if rules:
        schema["x-kubernetes-validations"] = [{"rule": rule, "message": message} for rule, message in rules]
    return schema


def rows(items: Schema, key: str, most: int, **more: int) -> Schema:
    """Returns the schema of a list whose items are known by a key."""
    return {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key], "items": items,
            "maxItems": most, **more}  # fmt: skip


def a_map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


CONDITION = struct(
    "type status lastTransitionTime reason message",
    type={"type": "string", "maxLength": 316},
    status={"type": "string", "enum": ["True", "False", "Unknown"]},
    lastTransitionTime=TIME,
    reason={"type": "string", "minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"},
    message={"type": "string", "maxLength": 32768},
    observedGeneration={"type": "integer", "format": "int64", "minimum": 0},
)
POD_SET = struct(
    "count name template",
    (
        (
            "has(self.minCount) ? self.minCount <= self.count : true",
            "minCount should be positive and less or equal to count",
        ),
    ),
    name={**POD_SET_NAME, "default": "main"},
    count={**NUMBER, "minimum": 0, "default": 1},
    minCount={**NUMBER, "minimum": 1},
    template=struct(
        metadata=struct(labels=a_map(TEXT), annotations=a_map(TEXT)), spec={**OPEN, "required": ["containers"]}
    ),
    topologyRequest=struct(
        required={"type": "string", "maxLength": 63},
        preferred={"type": "string", "maxLength": 63},
        unconstrained={"type": "boolean"},
        podIndexLabel={"type": "string", "maxLength": 317},
        podSetGroupName={"type": "string", "maxLength": 256},
        podSetSliceRequiredTopology={"type": "string", "maxLength": 63},
        podSetSliceSize=NUMBER,
    ),
)
PRIORITY_CLASS = struct(
    "group kind name",
    group={"type": "string", "enum": ["kueue.x-k8s.io", "scheduling.k8s.io"]},
    kind={"type": "string", "enum": ["WorkloadPriorityClass", "PriorityClass"]},
    name={**NAME, "minLength": 1},
)
WORKLOAD_SPEC = struct(
    "podSets",
    (("!has(self.priorityClassRef) || has(self.priority)", "priority should not be nil when priorityClassRef is set"),),
    podSets=rows(POD_SET, "name", 18, minItems=1),
    queueName=NAME,
    priorityClassRef=PRIORITY_CLASS,
    priority=NUMBER,
    active={"type": "boolean", "default": True},
    maximumExecutionTimeSeconds={**NUMBER, "minimum": 1},
)
ASSIGNMENT = struct(
    "name",
    name={**POD_SET_NAME, "default": "main"},
    flavors=a_map(NAME),
    resourceUsage=a_map(QUANTITY),
    count={**NUMBER, "minimum": 0},
    topologyAssignment=OPEN,
    delayedTopologyRequest={"type": "string", "enum": ["Pending", "Ready"]},
)
POD_SET_UPDATE = struct(
    "name",
    name=POD_SET_NAME,
    labels=a_map(TEXT),
    annotations=a_map(TEXT),
    nodeSelector=a_map(TEXT),
    tolerations={"type": "array", "items": OPEN, "maxItems": 8},
)
CHECK = struct(
    "name state lastTransitionTime message",
    name={"type": "string", "minLength": 1, "maxLength": 316},
    state={"type": "string", "enum": ["Pending", "Ready", "Retry", "Rejected"]},
    lastTransitionTime=TIME,
    message={"type": "string", "maxLength": 32768},
    podSetUpdates={"type": "array", "items": POD_SET_UPDATE, "maxItems": 18},
)
WORKLOAD_STATUS = struct(
    conditions=rows(CONDITION, "type", 16),
    admission=struct(
        "clusterQueue podSetAssignments", clusterQueue=NAME, podSetAssignments=rows(ASSIGNMENT, "name", 18)
    ),
    accumulatedPastExecutionTimeSeconds={**NUMBER, "minimum": 0},
    requeueState=struct(count={**NUMBER, "minimum": 0}, requeueAt=TIME),
    reclaimablePods=rows(struct("name count", name=POD_SET_NAME, count={**NUMBER, "minimum": 0}), "name", 18),
    admissionChecks=rows(CHECK, "name", 10),
)
HAS = (
    "has({0}.status) && has({0}.status.conditions) && "
    "{0}.status.conditions.exists(c, c.type == '{1}' && c.status == 'True')"
)
RESERVED, RESERVED_BEFORE = HAS.format("self", "QuotaReserved"), HAS.format("oldSelf", "QuotaReserved")
WORKLOAD_RULES = (
    (
        f"{RESERVED} && has(self.status.admission) ? "
        "size(self.spec.podSets) == size(self.status.admission.podSetAssignments) : true",
        "podSetAssignments must have the same number of podSets as the spec",
    ),
    (
        f"({RESERVED_BEFORE}) && ({RESERVED}) ? has(oldSelf.spec.queueName) == has(self.spec.queueName) && "
        "(!has(oldSelf.spec.queueName) || oldSelf.spec.queueName == self.spec.queueName) : true",
        "queueName is immutable while workload quota reserved",
    ),
    (
        f"({RESERVED_BEFORE}) ? has(oldSelf.spec.priorityClassRef) == has(self.spec.priorityClassRef) : true",
        "priorityClassRef is immutable while workload quota reserved",
    ),
)
QUOTA = struct("name nominalQuota", name=TEXT, nominalQuota=QUANTITY)
RESOURCE_GROUP = struct(
    "coveredResources flavors",
    (
        (
            "self.flavors.all(x, size(x.resources) == size(self.coveredResources))",
            "flavors must have the same number of resources as the coveredResources",
        ),
    ),
    coveredResources={"type": "array", "items": TEXT, "minItems": 1, "maxItems": 64},
    flavors=rows(
        struct("name resources", name=NAME, resources=rows(QUOTA, "name", 64, minItems=1)), "name", 64, minItems=1
    ),
)
POLICIES: Schema = {"type": "string", "enum": ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]}
CHECKS = {"type": "array", "items": struct("name", name=TEXT), "maxItems": 64}
CLUSTER_QUEUE = struct(
    resourceGroups={"type": "array", "items": RESOURCE_GROUP, "maxItems": 16},
    namespaceSelector=OPEN,
    preemption=struct(withinClusterQueue={**POLICIES, "default": "Never"}),
    admissionChecksStrategy=struct(admissionChecks=CHECKS),
    stopPolicy={"type": "string", "enum": ["None", "Hold", "HoldAndDrain"], "default": "None"},
)
TAINT = struct("key effect", key=TEXT, value=TEXT, effect=TEXT)
TOLERATION = struct(key=TEXT, operator=TEXT, value=TEXT, effect=TEXT)
FLAVOR = struct(
    nodeLabels={**a_map(TEXT), "maxProperties": 8},
    nodeTaints={"type": "array", "items": TAINT, "maxItems": 8},
    tolerations={"type": "array", "items": TOLERATION, "maxItems": 8},
    topologyName=NAME,
)
LEVELS = {"type": "array", "items": struct("nodeLabel", nodeLabel=TEXT), "minItems": 1, "maxItems": 16}
LOCAL_QUEUE = struct(clusterQueue=NAME, stopPolicy={"type": "string", "enum": ["None", "Hold", "HoldAndDrain"]})


def build_definitions() -> list[Object]:
    workload = struct("spec", WORKLOAD_RULES, spec=WORKLOAD_SPEC, status=WORKLOAD_STATUS)
    return [
        _build("Workload", "workloads", workload, scope="Namespaced"),
        _build("LocalQueue", "localqueues", struct(spec=LOCAL_QUEUE, status=OPEN), scope="Namespaced"),
        _build("ClusterQueue", "clusterqueues", struct(spec=CLUSTER_QUEUE, status=OPEN), scope="Cluster"),
        _build("ResourceFlavor", "resourceflavors", struct(spec=FLAVOR), scope="Cluster"),
        _build("Topology", "topologies", struct(spec=struct("levels", levels=LEVELS)), scope="Cluster"),
        _build("WorkloadPriorityClass", "workloadpriorityclasses", struct("value", value=NUMBER), scope="Cluster"),
    ]


def _build(kind: str, plural: str, schema: Schema, *, scope: str) -> Object:
    served = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}} if "status" in schema["properties"] else {},
        "schema": {"openAPIV3Schema": schema},
    }
    approved = {"api-approved.kubernetes.io": "unapproved, for tests"}  # groups of *.k8s.io need it
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": approved},
        "spec": {"group": GROUP, "scope": scope, "names": {"plural": plural, "kind": kind}, "versions": [served]},
    }


# Pairs of rule and message; `isUpdate` guards those about the object before.
IS_UPDATE = "request.operation != 'UPDATE' || "
WEBHOOK_RULES = (
    ("object.spec.podSets.filter(p, has(p.minCount)).size() <= 1", "at most one podSet can use minCount"),
    (
        "object.spec.podSets.all(p, p.template.spec.containers.all(c, !has(c.resources) || "
        "!has(c.resources.requests) || !('pods' in c.resources.requests)))",
        "the key is reserved for internal kueue use",
    ),
    (
        "!variables.reserved || has(object.status.admission) || "
        "(variables.reservedBefore && !has(oldObject.status.admission))",
        "status.admission: must be set while the QuotaReserved condition is true",
    ),
    (
        "!variables.reservedBefore || (object.spec.podSets.size() == oldObject.spec.podSets.size() && "
        "object.spec.podSets.all(n, oldObject.spec.podSets.exists(o, o.name == n.name && o.template == n.template && "
        "n.count <= o.count && has(o.minCount) == has(n.minCount) && (!has(o.minCount) || o.minCount == n.minCount))))",
        "spec.podSets: Invalid value: field is immutable",  # but for a smaller count: validateImmutablePodSet
    ),
    (
        IS_UPDATE + "!has(object.status) || !has(oldObject.status) || !has(object.status.admission) || "
        "!has(oldObject.status.admission) || object.status.admission == oldObject.status.admission",
        "status.admission: Invalid value: field is immutable",
    ),
    (
        "!has(object.status) || !has(object.status.reclaimablePods) || object.status.reclaimablePods.all(r, "
        "object.spec.podSets.exists(p, p.name == r.name))",
        "status.reclaimablePods: Unsupported value",
    ),
    (
        "!has(object.status) || !has(object.status.reclaimablePods) || object.status.reclaimablePods.all(r, "
        "object.spec.podSets.all(p, p.name != r.name || r.count <= p.count))",
        "status.reclaimablePods: should be less or equal to the podSet's count",
    ),
    (
        "!variables.reservedBefore || !variables.reserved || !has(oldObject.status.reclaimablePods) || "
        "oldObject.status.reclaimablePods.all(o, has(object.status.reclaimablePods) && "
        "object.status.reclaimablePods.exists(n, n.name == o.name && n.count >= o.count))",
        "status.reclaimablePods: Invalid value: cannot be less than before",
    ),
)


def build_webhook() -> list[Object]:
    """Returns a policy, and its binding: it refuses what Kueue's validating webhook does."""
    rule = {"apiGroups": [GROUP], "apiVersions": [VERSION], "operations": ["CREATE", "UPDATE"]}
    meta = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": POLICY}}
    policy = {
        **meta,
        "kind": "ValidatingAdmissionPolicy",
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{**rule, "resources": ["workloads", "workloads/status"]}]},
            "variables": [
                {"name": "reserved", "expression": HAS.format("object", "QuotaReserved")},
                {
                    "name": "reservedBefore",
                    "expression": f"request.operation == 'UPDATE' && {HAS.format('oldObject', 'QuotaReserved')}",
                },
            ],
            "validations": [
                {"expression": rule, "message": message, "reason": "Forbidden"} for rule, message in WEBHOOK_RULES
            ],
        },
    }
    binding = {**meta, "kind": "ValidatingAdmissionPolicyBinding"}
    return [policy, {**binding, "spec": {"policyName": POLICY, "validationActions": ["Deny"]}}]

"""The kinds that Railhead uses, and their paths."""

from __future__ import annotations

from dataclasses import dataclass, replace

from railhead.api import names


@dataclass(frozen=True)
class Kind:
    """A resource of the API server."""

    group: str
    version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def api_version(self) -> str:
        if self.group:
            return f"{self.group}/{self.version}"
        return self.version

    def in_version(self, api_version: str) -> Kind:
        """Returns the kind of this name in the group and version of an apiVersion; "" = its own."""
        if api_version in ("", self.api_version):
            return self
        group, _, version = api_version.rpartition("/")
        return replace(self, group=group, version=version)

    def path(self, *, namespace: str | None = None, name: str = "", subresource: str = "") -> str:
        """Returns the URL path; without a namespace it covers all namespaces."""
        if self.group:
            parts = ["/apis", self.group, self.version]
        else:
            parts = ["/api", self.version]
        if self.is_namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


POD = Kind("", "v1", "pods", "Pod")
SERVICE = Kind("", "v1", "services", "Service")
SECRET = Kind("", "v1", "secrets", "Secret")
CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
EVENT = Kind("", "v1", "events", "Event")
NODE = Kind("", "v1", "nodes", "Node", is_namespaced=False)
NAMESPACE = Kind("", "v1", "namespaces", "Namespace", is_namespaced=False)
PVC = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
PV = Kind("", "v1", "persistentvolumes", "PersistentVolume", is_namespaced=False)
RESOURCE_QUOTA = Kind("", "v1", "resourcequotas", "ResourceQuota")
SERVICE_ACCOUNT = Kind("", "v1", "serviceaccounts", "ServiceAccount")
JOB = Kind("batch", "v1", "jobs", "Job")
LEASE = Kind("coordination.k8s.io", "v1", "leases", "Lease")
STORAGE_CLASS = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", is_namespaced=False)
TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", is_namespaced=False)
SUBJECT_ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", is_namespaced=False
)
SELF_ACCESS_REVIEW = Kind(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", is_namespaced=False
)
DEPLOYMENT = Kind("apps", "v1", "deployments", "Deployment")
DAEMON_SET = Kind("apps", "v1", "daemonsets", "DaemonSet")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
CRD = Kind("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", is_namespaced=False)
TRAIN_JOB = Kind(names.GROUP, names.VERSION, names.PLURAL, names.KIND)
NETWORK_POLICY = Kind("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
_ADMISSION = "admissionregistration.k8s.io"
ADMISSION_POLICY = Kind(
    _ADMISSION, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", is_namespaced=False
)
ADMISSION_POLICY_BINDING = Kind(
    _ADMISSION, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", is_namespaced=False
)
# Kubernetes' own; those of other gang schedulers have the same plural in other groups.
POD_GROUP = Kind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
WORKLOAD = Kind("kueue.x-k8s.io", "v1beta2", "workloads", "Workload")
LOCAL_QUEUE = Kind("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue")
RESOURCE_FLAVOR = Kind("kueue.x-k8s.io", "v1beta2", "resourceflavors", "ResourceFlavor", is_namespaced=False)
WORKLOAD_PRIORITY_CLASS = Kind(
    "kueue.x-k8s.io", "v1beta2", "workloadpriorityclasses", "WorkloadPriorityClass", is_namespaced=False
)
CHILDREN = {kind.kind: kind for kind in (POD, SERVICE, SECRET, CONFIG_MAP, NETWORK_POLICY, POD_GROUP, WORKLOAD)}

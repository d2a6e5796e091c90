{{/* Rights for jobs: in the whole cluster, or in each of watchNamespaces. */}}
{{- define "railhead.jobRules" -}}
- apiGroups: [railhead.dev]
  resources: [trainjobs]
  verbs: [get, list, watch, delete]
- apiGroups: [railhead.dev]
  resources: [trainjobs/status]
  verbs: [patch]
# blockOwnerDeletion on children needs this where the API server enforces owner references.
- apiGroups: [railhead.dev]
  resources: [trainjobs/finalizers]
  verbs: [update]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete]
# "get" to check one that exists under a child's name, or that is to be deleted, and to copy the ConfigMap of
# spec.source.configMap once.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [create, get, delete]
# Of the heads of a namespace; it stays.
- apiGroups: [""]
  resources: [services]
  verbs: [create, get]
# Only created: garbage collection deletes a job's Secret with the ConfigMap that owns it.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
- apiGroups: [""]
  resources: [events]
  verbs: [create, get, list, patch]
# Also without jobNetworkPolicy.enabled: spec.keepPodsSeconds removes policies created while it was enabled.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [{{ if .Values.jobNetworkPolicy.enabled }}create, {{ end }}get, delete]
# Of the attempts of jobs with spec.scheduling.gangScheduler: Kubernetes', scheduler-plugins' and Volcano's.
- apiGroups: [scheduling.k8s.io, scheduling.x-k8s.io, scheduling.volcano.sh]
  resources: [podgroups]
  verbs: [create, get, delete]
{{- if .Values.queue.kueue.enabled }}
# Of the jobs that name a queue; Kueue answers in their status.
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [kueue.x-k8s.io]
  resources: [workloads/status]
  verbs: [patch]
{{- end }}
{{- end -}}

{{/* Cluster-scoped objects. */}}
{{- define "railhead.clusterRules" -}}
# To authenticate the token of a report.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- if .Values.metrics.authentication }}
# Whether the sender of a token may get /metrics.
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end }}
{{- if .Values.queue.kueue.enabled }}
# What Kueue's flavors add to the pods, and the values of priority classes.
- apiGroups: [kueue.x-k8s.io]
  resources: [resourceflavors, workloadpriorityclasses]
  verbs: [list, watch]
{{- end }}
{{- if include "railhead.hasPolicy" . }}
# To warn if the policy that restricts jobs is gone.
- apiGroups: [admissionregistration.k8s.io]
  resources: [validatingadmissionpolicies, validatingadmissionpolicybindings]
  resourceNames: [{{ include "railhead.clusterName" . }}]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* Rights in the operator's own namespace. */}}
{{- define "railhead.ownRules" -}}
{{- if not .Values.certManager.enabled }}
# This Secret keeps the report endpoint's certificate across restarts of the operator.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [railhead-report-tls]
  verbs: [get, patch]
{{- end }}
{{- if .Values.leaderElection.enabled }}
# Leader election. A create request has no name that a rule could restrict.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [railhead-operator]
  verbs: [get, patch]
{{- end }}
{{- if and .Values.watchNamespaces (not .Values.certManager.enabled) }}
# To create the certificate's Secret; the role for jobs allows that in their namespaces only.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
{{- end -}}

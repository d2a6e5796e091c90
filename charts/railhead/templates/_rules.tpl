{{/* What the operator does with jobs: in the whole cluster, or in each of watchNamespaces. */}}
{{- define "railhead.jobRules" -}}
- apiGroups: [railhead.dev]
  resources: [trainjobs]
  verbs: [get, list, watch]
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
- apiGroups: [""]
  resources: [services, configmaps, secrets]
  verbs: [create, delete]
# The ConfigMap that spec.source.configMap names is read once, to copy it.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get]
- apiGroups: [""]
  resources: [events]
  verbs: [create, get, list, patch]
# Also without jobNetworkPolicies: spec.ttlSecondsAfterFinished removes those of a time when they were switched on.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [{{ if .Values.jobNetworkPolicies }}create, {{ end }}delete]
{{- end -}}

{{/* What has no namespace. */}}
{{- define "railhead.clusterRules" -}}
# Whose token a report carries.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
{{- end -}}

{{/* What the operator keeps in its own namespace. */}}
{{- define "railhead.ownRules" -}}
{{- if not .Values.certManager.enabled }}
# The report endpoint's certificate survives restarts of the operator in this one Secret.
- apiGroups: [""]
  resources: [secrets]
  resourceNames: [railhead-report-tls]
  verbs: [get, patch]
{{- end }}
{{- if .Values.leaderElection.enabled }}
# Who of several replicas leads. A create has no name yet that a rule could compare.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [railhead-operator]
  verbs: [get, patch]
{{- end }}
{{- if and .Values.watchNamespaces (not .Values.certManager.enabled) }}
# To make the certificate's Secret; the role for jobs allows that in their namespaces only.
- apiGroups: [""]
  resources: [secrets]
  verbs: [create]
{{- end }}
{{- end -}}

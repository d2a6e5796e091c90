{{/*
The prefix of all names. A Service's name has at most 63 characters, begins with a letter and has no dots; a release's name
may have dots and begin with a digit. 54 characters leave room for "-operator", and for all of a release's name behind an "r".
*/}}
{{- define "railhead.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $release := regexReplaceAll "^([0-9])" (replace "." "-" .Release.Name) "r${1}" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- $release -}}
{{- else -}}
{{- printf "%s-%s" $release $name | trunc 54 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "railhead.operator" -}}{{ include "railhead.fullname" . }}-operator{{- end -}}
{{- define "railhead.reports" -}}{{ include "railhead.fullname" . }}-reports{{- end -}}

{{/* Several releases may run different jobs, so the names of cluster-scoped objects include the release's namespace then. */}}
{{- define "railhead.clusterName" -}}
{{- include "railhead.operator" . -}}{{- if or .Values.watchNamespaces .Values.jobSelector -}}-{{ .Release.Namespace }}{{- end -}}
{{- end -}}

{{- define "railhead.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "railhead.operator" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is required with serviceAccount.create=false: the account that the operator runs as" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "railhead.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{- printf "%s@%s" $image.repository $image.digest -}}
{{- else -}}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "railhead.selector" -}}
app.kubernetes.io/name: railhead
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "railhead.labels" -}}
{{- $own := dict
  "app.kubernetes.io/name" "railhead"
  "app.kubernetes.io/instance" .Release.Name
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_")
-}}
{{- toYaml (merge $own .Values.commonLabels) -}}
{{- end -}}

{{/* `annotations:` of an object, from commonAnnotations and the object's own, which win: call it with (list $ own). Nothing without any. */}}
{{- define "railhead.annotations" -}}
{{- $root := index . 0 -}}
{{- $all := merge (dict) (index . 1 | default dict) $root.Values.commonAnnotations -}}
{{- with $all }}
  annotations: {{- toYaml . | nindent 4 }}
{{- end -}}
{{- end -}}

{{/* Without the ids that the cluster chooses. */}}
{{- define "railhead.podSecurityContext" -}}
{{- $context := .Values.podSecurityContext | default dict -}}
{{- if eq .Values.podUser "Cluster" -}}
{{- $context = omit $context "runAsUser" "runAsGroup" "fsGroup" -}}
{{- end -}}
{{- with $context }}{{ toYaml . }}{{ end -}}
{{- end -}}

{{/* The labels that the operator gives to what it creates: its own are there anyway. */}}
{{- define "railhead.createdLabels" -}}
{{- $labels := dict -}}
{{- range $key, $value := .Values.commonLabels -}}
{{- if not (or (hasPrefix "app.kubernetes.io/" $key) (hasPrefix "railhead.dev/" $key)) -}}
{{- $_ := set $labels $key $value -}}
{{- end -}}
{{- end -}}
{{- with $labels }}{{ toJson . }}{{ end -}}
{{- end -}}

{{/* "true" if the chart installs its ValidatingAdmissionPolicy. */}}
{{- define "railhead.hasPolicy" -}}
{{- if or .Values.jobs.restrictPodTemplate .Values.jobs.allowedServiceAccounts -}}true{{- end -}}
{{- end -}}

{{- define "railhead.subject" -}}
subjects:
  - kind: ServiceAccount
    name: {{ include "railhead.serviceAccount" . }}
    namespace: {{ .Release.Namespace }}
{{- end -}}

{{- define "opsgate.name" -}}
{{ default .Chart.Name .Values.nameOverride | trunc 57 | trimSuffix "-" }}
{{- end }}

{{/* At most 57 characters, so that a suffix fits into a name of 63. */}}
{{- define "opsgate.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 57 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 57 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 57 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "opsgate.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "opsgate.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end }}

{{- define "opsgate.selectorLabels" -}}
app.kubernetes.io/name: {{ include "opsgate.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* Another name than that of the gateways, whose Services would select these pods too. */}}
{{- define "opsgate.mcpSelectorLabels" -}}
app.kubernetes.io/name: {{ include "opsgate.name" . }}-mcp
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "opsgate.labels" -}}
{{ include "opsgate.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "opsgate.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end }}

{{/* The job of the gateways in Prometheus. The ServiceMonitor takes it from the name label of the admin Service. */}}
{{- define "opsgate.job" -}}
{{ default (include "opsgate.name" .) .Values.prometheusRule.job }}
{{- end }}

{{/* The configuration: config of the values, merged over the settings of the chart. */}}
{{- define "opsgate.config" -}}
{{- $limits := dict "expected_replicas" "auto" -}}
{{- with .Values.redis.existingSecret -}}
{{- if .name -}}
{{- $_ := set $limits "redis" (dict "password" (printf "${file:/run/secrets/opsgate/redis/%s}" .key)) -}}
{{- end -}}
{{- end -}}
{{- $token := printf "${file:/run/secrets/opsgate/admin/%s}" .Values.admin.existingSecret.key -}}
{{- $admin := dict "listen" ":9090" "token" $token -}}
{{- with .Values.admin.metrics.existingSecret -}}
{{- if .name -}}
{{- $_ := set $admin "metrics_token" (printf "${file:/run/secrets/opsgate/admin-metrics/%s}" .key) -}}
{{- end -}}
{{- end -}}
{{- if .Values.admin.tls.existingSecret.name -}}
{{- $dir := "/run/secrets/opsgate/admin-tls" -}}
{{- $_ := set $admin "tls" (dict "cert_file" (printf "%s/tls.crt" $dir) "key_file" (printf "%s/tls.key" $dir)) -}}
{{- end -}}
{{- $known := dict
  "listen" ":8080"
  "admin" $admin
  "shutdown" (dict
    "drain_wait" (printf "%ds" (int .Values.shutdown.drainWaitSeconds))
    "grace" (printf "%ds" (int .Values.shutdown.graceSeconds)))
  "rate_limit" $limits -}}
{{ mergeOverwrite $known (deepCopy .Values.config) | toYaml }}
{{- end }}

{{/*
The name of the ConfigMap of the gateways. It depends on the keys that need a restart, and on what a configuration is for: the image, the
environment and the mounted files. So a change of one of them replaces the pods, and each pod reads a configuration that fits it. Other keys
change in place.
*/}}
{{- define "opsgate.configName" -}}
{{- $config := include "opsgate.config" . | fromYaml -}}
{{- $fixed := dict "container" (include "opsgate.checkContainer" .) "volumes" (include "opsgate.volumes" (list . "" false)) -}}
{{- range $key := .Files.Get "files/restart-keys.yaml" | fromYamlArray -}}
{{- $value := $config -}}
{{- range $name := splitList "." $key -}}
{{- if kindIs "map" $value -}}
{{- $value = index $value $name -}}
{{- end -}}
{{- end -}}
{{- if not (kindIs "invalid" $value) -}}
{{- $_ := set $fixed $key $value -}}
{{- end -}}
{{- end -}}
{{ include "opsgate.fullname" . }}-{{ $fixed | toJson | sha256sum | trunc 8 }}
{{- end }}

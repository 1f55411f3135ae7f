{{/* What the pods of the gateways and of the check have in common. */}}

{{- define "opsgate.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- define "opsgate.scheduling" -}}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "opsgate.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with .Values.env }}
env: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with get .Values "resources" }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
volumeMounts:
  # The folder, because the kubelet does not update a file mounted with subPath.
  - {name: config, mountPath: /etc/opsgate, readOnly: true}
  - {name: admin, mountPath: /run/secrets/opsgate/admin, readOnly: true}
  {{- if .Values.admin.metrics.existingSecret.name }}
  - {name: admin-metrics, mountPath: /run/secrets/opsgate/admin-metrics, readOnly: true}
  {{- end }}
  {{- if .Values.admin.tls.existingSecret.name }}
  - {name: admin-tls, mountPath: /run/secrets/opsgate/admin-tls, readOnly: true}
  {{- end }}
  {{- if .Values.redis.existingSecret.name }}
  - {name: redis, mountPath: /run/secrets/opsgate/redis, readOnly: true}
  {{- end }}
  {{- range .Values.secrets }}
  - {name: {{ printf "secret-%s" .name }}, mountPath: {{ printf "/run/secrets/opsgate/%s" .name }}, readOnly: true}
  {{- end }}
  {{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The container that validates the configuration with the image of the gateways. They serve with an expired certificate, so it only warns. */}}
{{- define "opsgate.checkContainer" -}}
name: check
image: {{ include "opsgate.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
args: [check, --allow-expired, --config, /etc/opsgate/opsgate.yaml]
{{ include "opsgate.container" . }}
{{- end }}

{{/*
The volumes, of a list: the context, the name of the ConfigMap, and whether the pod starts without Secrets that do not exist, so that the
check reports them.
*/}}
{{- define "opsgate.volumes" -}}
{{- $optional := "" -}}
{{- if index . 2 -}}
{{- $optional = ", optional: true" -}}
{{- end -}}
- name: config
  configMap: {name: {{ index . 1 }}}
{{- with index . 0 }}
{{- with .Values.admin.existingSecret }}
- name: admin
  secret: {secretName: {{ .name }}, items: [{key: {{ .key }}, path: {{ .key }}}]{{ $optional }}}
{{- end }}
{{- with .Values.admin.metrics.existingSecret }}
{{- if .name }}
- name: admin-metrics
  secret: {secretName: {{ .name }}, items: [{key: {{ .key }}, path: {{ .key }}}]{{ $optional }}}
{{- end }}
{{- end }}
{{- with .Values.admin.tls.existingSecret.name }}
- name: admin-tls
  secret: {secretName: {{ . }}, items: [{key: tls.crt, path: tls.crt}, {key: tls.key, path: tls.key}]{{ $optional }}}
{{- end }}
{{- with .Values.redis.existingSecret }}
{{- if .name }}
- name: redis
  secret: {secretName: {{ .name }}, items: [{key: {{ .key }}, path: {{ .key }}}]{{ $optional }}}
{{- end }}
{{- end }}
{{- range .Values.secrets }}
- name: {{ printf "secret-%s" .name }}
  secret: {secretName: {{ .secretName }}{{ $optional }}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{/* A probe of the admin listener, of a list: the context, the path, the settings. */}}
{{- define "opsgate.probe" -}}
httpGet: {path: {{ index . 1 }}, port: admin{{ if (index . 0).Values.admin.tls.existingSecret.name }}, scheme: HTTPS{{ end }}}
{{ toYaml (index . 2) }}
{{- end }}

{{/* How long the preStop hook sleeps before SIGTERM. */}}
{{- define "opsgate.preStopSeconds" -}}
{{ int (dig "preStop" "sleep" "seconds" 0 .Values.lifecycle) }}
{{- end }}

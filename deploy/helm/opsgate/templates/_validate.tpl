{{/* Refuses combinations of values that would hurt. values.schema.json has the rules of single values. */}}
{{- define "opsgate.validate" -}}
{{- with .Values.autoscaling -}}
{{- if .enabled -}}
{{- if gt (int .minReplicas) (int .maxReplicas) -}}
{{- fail (printf "autoscaling.minReplicas: %d is more than maxReplicas, which is %d" (int .minReplicas) (int .maxReplicas)) -}}
{{- end -}}
{{- $resources := get $.Values "resources" | default dict -}}
{{- if not (or (dig "requests" "cpu" "" $resources) (dig "limits" "cpu" "" $resources)) -}}
{{- fail "resources.requests.cpu: is required with autoscaling.enabled, because the CPU utilization is a share of it" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and .enabled (eq (.maxUnavailable | toString | trimSuffix "%" | int) 0) -}}
{{- fail "podDisruptionBudget.maxUnavailable: 0 allows no eviction, so no node with a gateway could be drained" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: is required with ingress.enabled, because an Ingress without a host is that of every host" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: is required with httpRoute.enabled" -}}
{{- end -}}
{{- end }}

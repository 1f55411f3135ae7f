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
{{- if and .Values.mcp.enabled (not (hasPrefix "https://" (get .Values.config "public_url"))) -}}
{{- fail "config.public_url: must be an https URL with mcp.enabled, because agents send their tokens to it" -}}
{{- end -}}
{{- if and .Values.mcp.enabled (not (get .Values.config "trusted_proxies")) -}}
{{- fail "config.trusted_proxies: must have the network of the pods with mcp.enabled, because to the gateways all agents would be one client" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.hosts) -}}
{{- fail "ingress.hosts: is required with ingress.enabled, because an Ingress without a host is that of every host" -}}
{{- end -}}
{{- if and .Values.httpRoute.enabled (not .Values.httpRoute.parentRefs) -}}
{{- fail "httpRoute.parentRefs: is required with httpRoute.enabled" -}}
{{- end -}}
{{- end }}

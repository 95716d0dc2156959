{{- /* Azure managed Prometheus reads monitors of its own API group, and requires label limits. */ -}}
{{- define "gpu-provisioner.monitorGroup" -}}
{{- $group := .Values.metrics.monitor.apiGroup -}}
{{- $upstream := "monitoring.coreos.com" -}}
{{- $azure := "azmonitoring.coreos.com" -}}
{{- if ne $group "auto" -}}
{{- $group -}}
{{- else if and (.Capabilities.APIVersions.Has (printf "%s/v1" $azure)) (not (.Capabilities.APIVersions.Has (printf "%s/v1" $upstream))) -}}
{{- $azure -}}
{{- else -}}
{{- $upstream -}}
{{- end -}}
{{- end -}}

{{- /* A ServiceMonitor or PodMonitor: (dict "root" $ "kind" … "endpoints" "endpoints" or "podMetricsEndpoints" "given" the values of the monitor). */ -}}
{{- define "gpu-provisioner.monitor" -}}
{{- $group := include "gpu-provisioner.monitorGroup" .root -}}
{{- /* A token that may only get /metrics, from the Secret that Kubernetes fills. */ -}}
{{- $token := dict -}}
{{- if .root.Values.controller.metrics.authentication -}}
{{- $token = dict "authorization" (dict "credentials" (dict "name" (include "gpu-provisioner.metricsReader" .root) "key" "token")) -}}
{{- end -}}
apiVersion: {{ $group }}/v1
kind: {{ .kind }}
metadata:
  {{- include "gpu-provisioner.metadata" (dict "root" .root "namespace" .root.Release.Namespace "labels" .given.additionalLabels) | nindent 2 }}
spec:
  {{- if eq $group "azmonitoring.coreos.com" }}
  labelLimit: 63
  labelNameLengthLimit: 511
  labelValueLengthLimit: 1023
  {{- end }}
  namespaceSelector:
    matchNames: [{{ .root.Release.Namespace | quote }}]
  selector:
    matchLabels:
      {{- include "gpu-provisioner.selectorLabels" .root | nindent 6 }}
  {{ .endpoints }}:
    - {{- toYaml (merge dict (default dict .given.endpointConfig) (dict "port" "http-metrics" "path" "/metrics") $token) | nindent 6 }}
{{- end -}}

{{- define "gpu-provisioner.metricsReader" -}}
{{- printf "%s-metrics-reader" (include "gpu-provisioner.fullname" .) -}}
{{- end -}}

{{- /* A rule with the changes in the values: (dict "given" .Values.prometheusRule "rule" …). An alert's expression ends with its threshold. */ -}}
{{- define "gpu-provisioner.rule" -}}
{{- $rule := .rule -}}
{{- if $rule.alert -}}
{{- $other := get (default dict .given.alerts) $rule.alert | default dict -}}
{{- $annotations := merge (dict "runbook_url" (.given.runbookUrl | replace "{alert}" $rule.alert)) (default dict $rule.annotations) -}}
{{- if .given.grafanaUrl -}}
{{- $_ := set $annotations "dashboard_url" (printf "%s/d/gpu-provisioner-fleet" (trimSuffix "/" .given.grafanaUrl)) -}}
{{- end -}}
{{- $_ := set $rule "annotations" $annotations -}}
{{- if hasKey $other "threshold" -}}
{{- $_ := set $rule "expr" (regexReplaceAll "[0-9.]+$" $rule.expr (toString $other.threshold)) -}}
{{- end -}}
{{- $lasting := get (default dict $other.for) (default "" (default dict $rule.labels).severity) -}}
{{- if $lasting -}}
{{- $_ := set $rule "for" $lasting -}}
{{- end -}}
{{- end -}}
{{- toYaml $rule -}}
{{- end -}}

{{- /* Whether an alert is disabled: (dict "given" .Values.prometheusRule "rule" …). */ -}}
{{- define "gpu-provisioner.ruleIsOff" -}}
{{- $other := get (default dict .given.alerts) (default "" .rule.alert) | default dict -}}
{{- if and (hasKey $other "enabled") (not $other.enabled) -}}off{{- end -}}
{{- end -}}

{{- /* Parts that the controller's Pods and the Pod of `helm test` share. */ -}}

{{- /* Environment variables by name, in ascending precedence: the chart's own, settings, extraEnv, env. */ -}}
{{- define "gpu-provisioner.environment" -}}
{{- $values := .Values -}}
{{- $texts := dict
  "ARM_SUBSCRIPTION_ID" $values.azure.subscriptionId
  "ARM_RESOURCE_GROUP" $values.azure.resourceGroup
  "AZURE_CLUSTER_NAME" (default (get ($values.settings.azure | default dict) "clusterName") $values.azure.clusterName)
  "LOCATION" $values.azure.location
  "ARM_API_VERSION" ($values.azure.apiVersion | default "")
  "AZURE_ENVIRONMENT" $values.azure.environment
  "DEPLOYMENT_MODE" $values.deploymentMode
  "LOG_LEVEL" (default $values.logLevel $values.controller.logLevel)
  "LOG_ENCODING" (default $values.logEncoding $values.controller.logEncoding)
  "METRICS_PORT" ($values.controller.metrics.port | int | toString)
  "METRICS_AUTHENTICATION" ($values.controller.metrics.authentication | ternary "true" "")
  "HEALTH_PROBE_PORT" ($values.controller.healthProbe.port | int | toString)
  "DISABLE_LEADER_ELECTION" ($values.leaderElection.enabled | ternary "" "true")
  "NODE_POOLS" ($values.nodePools.enabled | ternary "" "false")
  "READINESS_RULES" ($values.readinessRules | empty | ternary "" (toJson $values.readinessRules))
  "NVSENTINEL" ($values.nvsentinel.enabled | ternary (omit $values.nvsentinel "enabled" | toJson) "")
  "GKM_CLEANUP" ($values.gkm.cleanup | ternary "true" "")
  "LEADER_ELECTION_NAME" ($values.leaderElection.enabled | ternary $values.leaderElection.name "")
  "LEADER_ELECTION_NAMESPACE" ($values.leaderElection.enabled | ternary (include "gpu-provisioner.leaseNamespace" .) "")
-}}
{{- $entries := dict -}}
{{- range $name, $text := $texts -}}
{{- if $text -}}{{- $_ := set $entries $name (dict "value" $text) -}}{{- end -}}
{{- end -}}
{{- range $name, $given := omit $values.settings "azure" -}}
{{- if and (kindIs "float64" $given) (eq ($given | toString) ($given | floor | toString)) -}}{{- $given = $given | int64 -}}{{- end -}}
{{- if kindIs "slice" $given -}}{{- $given = empty $given | ternary "" ($given | toJson) -}}{{- end -}}
{{- if kindIs "map" $given -}}{{- $given = empty $given | ternary "" ($given | toJson) -}}{{- end -}}
{{- if not (or (kindIs "invalid" $given) (eq ($given | toString) "")) -}}{{- $_ := set $entries ($name | snakecase | upper) (dict "value" ($given | toString)) -}}{{- end -}}
{{- end -}}
{{- range $name, $given := $values.controller.extraEnv -}}
{{- if kindIs "float64" $given -}}{{- $given = $given | int64 -}}{{- end -}}
{{- $_ := set $entries $name (kindIs "map" $given | ternary $given (dict "value" ($given | toString))) -}}
{{- end -}}
{{- range $values.controller.env -}}
{{- $entry := omit . "name" -}}
{{- if or $entry.value $entry.valueFrom -}}{{- $_ := set $entries .name $entry -}}{{- end -}}
{{- end -}}
{{- if not $values.controller.envFrom -}}
{{- $_ := required "azure.subscriptionId is needed: the subscription of the AKS cluster" (get $entries "ARM_SUBSCRIPTION_ID") -}}
{{- $_ := required "azure.resourceGroup is needed: the resource group of the AKS cluster" (get $entries "ARM_RESOURCE_GROUP") -}}
{{- $_ := required "azure.clusterName is needed: the name of the AKS cluster" (get $entries "AZURE_CLUSTER_NAME") -}}
{{- end -}}
{{- toYaml $entries -}}
{{- end -}}

{{- /* The container without ports and probes: (dict "root" $ "name" "controller" "command" "run"). */ -}}
{{- define "gpu-provisioner.container" -}}
{{- $controller := .root.Values.controller -}}
name: {{ .name }}
image: {{ include "gpu-provisioner.image" .root | quote }}
imagePullPolicy: {{ .root.Values.imagePullPolicy }}
args: [{{ .command }}]
env:
  {{- range $name, $entry := include "gpu-provisioner.environment" .root | fromYaml }}
  - name: {{ $name | quote }}
    {{- toYaml $entry | nindent 4 }}
  {{- end }}
{{- with $controller.envFrom }}
envFrom:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $controller.resources }}
resources:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $controller.securityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $controller.extraVolumeMounts }}
volumeMounts:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Labels of a Pod; the given ones take precedence: (dict "root" $ "labels" …). */ -}}
{{- define "gpu-provisioner.podLabels" -}}
{{- $identity := .root.Values.workloadIdentity.enabled | ternary (dict "azure.workload.identity/use" "true") dict -}}
{{- toYaml (merge dict .labels $identity (default dict .root.Values.podLabels)) -}}
{{- end -}}

{{- /* The Pod's service account, scheduling and security context, without containers. */ -}}
{{- define "gpu-provisioner.pod" -}}
serviceAccountName: {{ include "gpu-provisioner.serviceAccountName" . | quote }}
automountServiceAccountToken: true
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- if .Values.hostNetwork }}
hostNetwork: true
{{- end }}
{{- with .Values.dnsPolicy }}
dnsPolicy: {{ . }}
{{- end }}
{{- with .Values.dnsConfig }}
dnsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.podSecurityContext }}
securityContext:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.extraVolumes }}
volumes:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Affinity and spread constraints of the controller's Pods. */ -}}
{{- define "gpu-provisioner.placement" -}}
{{- $affinity := deepCopy (default dict .Values.affinity) }}
{{- range $kind := list "podAffinity" "podAntiAffinity" }}
{{- range $terms := get $affinity $kind | default dict }}
{{- include "gpu-provisioner.selectOwnPods" (dict "root" $ "terms" $terms) }}
{{- end }}
{{- end }}
{{- with $affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- $constraints := deepCopy (default list .Values.topologySpreadConstraints) }}
{{- include "gpu-provisioner.selectOwnPods" (dict "root" $ "terms" $constraints) }}
{{- with $constraints }}
topologySpreadConstraints:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "gpu-provisioner.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "gpu-provisioner.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The name of the Pod of `helm test`, which is the value of a label too. */ -}}
{{- define "gpu-provisioner.testName" -}}
{{- printf "%s-check" (include "gpu-provisioner.fullname" . | trunc 57 | trimSuffix "-") -}}
{{- end -}}

{{- define "gpu-provisioner.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "gpu-provisioner.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.name is needed when serviceAccount.create is false" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "gpu-provisioner.leaseNamespace" -}}
{{- default "kube-system" .Values.leaderElection.namespace -}}
{{- end -}}

{{- /* The same selector as in Azure/gpu-provisioner's chart: a Deployment's selector is immutable, and its releases can be upgraded to this chart. */ -}}
{{- define "gpu-provisioner.selectorLabels" -}}
app.kubernetes.io/name: {{ include "gpu-provisioner.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "gpu-provisioner.labels" -}}
{{- $labels := dict
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63)
  "app.kubernetes.io/version" .Chart.AppVersion
  "app.kubernetes.io/managed-by" .Release.Service
-}}
{{- toYaml (merge $labels (include "gpu-provisioner.selectorLabels" . | fromYaml) (default dict .Values.additionalLabels)) -}}
{{- end -}}

{{- /* The metadata of an object: (dict "root" $ "name" … "namespace" … "labels" … "annotations" …); only root is required. */ -}}
{{- define "gpu-provisioner.metadata" -}}
name: {{ .name | default (include "gpu-provisioner.fullname" .root) | quote }}
{{- with .namespace }}
namespace: {{ . | quote }}
{{- end }}
labels:
  {{- toYaml (merge (include "gpu-provisioner.labels" .root | fromYaml) (default dict .labels)) | nindent 2 }}
{{- with merge dict (default dict .annotations) (default dict .root.Values.additionalAnnotations) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Values copied from Azure/gpu-provisioner's chart can contain its image, which is another program. */ -}}

{{- define "gpu-provisioner.image" -}}
{{- $image := .Values.controller.image -}}
{{- $build := printf "Build and push the image (az acr build --registry REGISTRY --image gpu-provisioner:%s .) and set it to REGISTRY.azurecr.io/gpu-provisioner" .Chart.AppVersion -}}
{{- $repository := required (printf "controller.image.repository is needed: the chart has no default, because no image is published. %s" $build) $image.repository -}}
{{- if hasSuffix "aks/kaito/gpu-provisioner" $repository -}}
{{- fail (printf "controller.image.repository is %s, the image of Azure/gpu-provisioner, which is another program. Remove controller.image from your values. %s" $repository $build) -}}
{{- end -}}
{{- $tagged := printf "%s:%s" $repository (default .Chart.AppVersion $image.tag | toString) -}}
{{- $image.digest | empty | ternary $tagged (printf "%s@%s" $tagged (default "" $image.digest)) -}}
{{- end -}}

{{- /* Adds the pods' label selector, in place, to pod (anti-)affinity terms and spread constraints without a selector. */ -}}
{{- define "gpu-provisioner.selectOwnPods" -}}
{{- $own := dict "matchLabels" (include "gpu-provisioner.selectorLabels" .root | fromYaml) -}}
{{- range .terms -}}
{{- $term := .podAffinityTerm | default . -}}
{{- if not (hasKey $term "labelSelector") -}}
{{- $_ := set $term "labelSelector" $own -}}
{{- end -}}
{{- end -}}
{{- end -}}

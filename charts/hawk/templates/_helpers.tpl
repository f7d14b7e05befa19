{{/* Names. */}}
{{- define "hawk.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Cluster-scoped names carry the namespace, so that two releases of one name do not meet. */}}
{{- define "hawk.clusterName" -}}
{{- if eq .Release.Namespace (include "hawk.fullname" .) -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- printf "%s-%s" .Release.Namespace (include "hawk.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "hawk.operatorAccount" -}}
{{- default (printf "%s-operator" (include "hawk.fullname" .)) .Values.operator.serviceAccount.name -}}
{{- end -}}

{{- define "hawk.agentAccount" -}}
{{- default (printf "%s-agent" (include "hawk.fullname" .)) .Values.agent.serviceAccount.name -}}
{{- end -}}

{{- define "hawk.agentNamespace" -}}
{{- default .Release.Namespace .Values.agent.namespace -}}
{{- end -}}

{{- define "hawk.agentUser" -}}
system:serviceaccount:{{ include "hawk.agentNamespace" . }}:{{ include "hawk.agentAccount" . }}
{{- end -}}

{{/* Fixed, like the name of the leader's Lease: a namespace holds one operator. */}}
{{- define "hawk.caSecret" -}}hawk-agent-ca{{- end -}}
{{- define "hawk.trustConfigMap" -}}hawk-agent-trust{{- end -}}

{{/* "true" where this release manages node agents. */}}
{{- define "hawk.nodes" -}}
{{- if kindIs "bool" .Values.nodes.manage -}}
{{- if .Values.nodes.manage }}true{{ end -}}
{{- else if eq .Values.scope "cluster" -}}true{{- end -}}
{{- end -}}

{{/* Labels. */}}
{{- define "hawk.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hawk.labels" -}}
{{ include "hawk.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: hawkpool
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hawk.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ default $.Chart.AppVersion .tag }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* What the values cannot mean together; each message names the values and the remedy. */}}
{{- define "hawk.checks" -}}
{{- if and (eq .Values.agent.memlock "Capability") (ne (int .Values.agent.runAsUser) 0) -}}
{{- fail (printf "agent.runAsUser: %d with agent.memlock Capability: IPC_LOCK has no effect for a user other than root; set agent.runAsUser to 0, or raise the container runtime's memlock limit and set agent.memlock to Runtime" (int .Values.agent.runAsUser)) -}}
{{- end -}}
{{- if and (eq .Values.trust.mode "Files") .Values.agent.enabled (not .Values.trust.volume) -}}
{{- fail "trust.volume: empty with trust.mode Files: name a volume source that holds tls.crt, tls.key and ca.crt" -}}
{{- end -}}
{{- if and (eq .Values.trust.mode "Kubernetes") .Values.trust.volume -}}
{{- fail "trust.volume: set with trust.mode Kubernetes, where it would be ignored: remove it, or set trust.mode to Files" -}}
{{- end -}}
{{- if and .Values.agent.createNamespace (or (not .Values.agent.namespace) (eq .Values.agent.namespace .Release.Namespace)) -}}
{{- fail (printf "agent.createNamespace: true, but agent.namespace is the release's own (%s): set agent.namespace to another name" .Release.Namespace) -}}
{{- end -}}
{{- if and (not .Values.operator.serviceAccount.create) (not .Values.operator.serviceAccount.name) -}}
{{- fail "operator.serviceAccount.name: empty with operator.serviceAccount.create false: name an existing account" -}}
{{- end -}}
{{- if and (not .Values.agent.serviceAccount.create) (not .Values.agent.serviceAccount.name) -}}
{{- fail "agent.serviceAccount.name: empty with agent.serviceAccount.create false: name an existing account" -}}
{{- end -}}
{{- end -}}

{{/* Command lines. NOTES.txt prints them for processes that run outside. */}}
{{- define "hawk.operatorArgs" -}}
- --system-namespace={{ .Release.Namespace }}
{{- if eq .Values.scope "namespace" }}
- --namespace={{ .Release.Namespace }}
{{- end }}
- --metrics-port={{ .Values.operator.metricsPort }}
- --resync={{ .Values.operator.resyncSeconds }}
- --agent-socket-directory={{ .Values.agent.socketDirectory }}
{{- if include "hawk.nodes" . }}
- --agent-namespace={{ include "hawk.agentNamespace" . }}
{{- if .Values.agent.enabled }}
- --agent-daemon-set={{ include "hawk.fullname" . }}-agent
{{- end }}
{{- end }}
- --engine-auth={{ .Values.agent.engineAuth }}
{{- if and (include "hawk.nodes" .) (eq .Values.trust.mode "Kubernetes") }}
- --agent-service-account={{ include "hawk.agentAccount" . }}
- --ca-secret={{ include "hawk.caSecret" . }}
- --trust-config-map={{ include "hawk.trustConfigMap" . }}
{{- end }}
{{- with .Values.operator.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hawk.agentHost" -}}
{{- contains ":" .Values.agent.bindAddress | ternary (printf "[%s]" .Values.agent.bindAddress) .Values.agent.bindAddress -}}
{{- end -}}

{{- define "hawk.agentArgs" -}}
- --node=$(NODE_NAME)
- --system-namespace={{ .Release.Namespace }}
- --socket={{ .Values.agent.socketDirectory }}/agent.sock
- --socket-mode={{ .Values.agent.socketMode }}
- --engine-auth={{ .Values.agent.engineAuth }}
- --listen={{ include "hawk.agentHost" . }}:{{ .Values.agent.port }}
- --data-port={{ .Values.agent.dataPort }}
- --advertise=$(POD_IP)
- --metrics={{ include "hawk.agentHost" . }}:{{ .Values.agent.metricsPort }}
- --kube
- --identity={{ eq .Values.trust.mode "Kubernetes" | ternary "kubernetes" "files" }}
- --tls-cert=/var/run/hawk/tls/tls.crt
- --tls-key=/var/run/hawk/tls/tls.key
- --tls-ca=/var/run/hawk/tls/ca.crt
{{- with .Values.agent.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

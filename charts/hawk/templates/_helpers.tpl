{{/* Every template begins with this. With --reuse-values Helm hands over the values of the older chart alone, which
     lack what is new; files/defaults.yaml holds the defaults by their paths. A value set to null is missing too, and so
     it has its default. */}}
{{- define "hawk.defaults" -}}
{{- range $path, $default := .Files.Get "files/defaults.yaml" | fromYaml -}}
{{- $at := $.Values -}}
{{- range initial (splitList "." $path) -}}
{{- if not (hasKey $at .) }}{{ $_ := set $at . dict }}{{ end -}}
{{- $at = index $at . -}}
{{- end -}}
{{- $key := last (splitList "." $path) -}}
{{- if not (hasKey $at $key) }}{{ $_ := set $at $key $default }}{{ end -}}
{{- end -}}
{{- end -}}

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

{{/* The image of a component: list of the root and "operator" or "agent". */}}
{{- define "hawk.image" -}}
{{- $root := index . 0 -}}
{{- $common := $root.Values.image -}}
{{- $own := empty $common.repository | not | ternary $common (index $root.Values (index . 1)).image -}}
{{- with $common.registry }}{{ . }}/{{ end -}}
{{- if $own.digest -}}
{{ $own.repository }}@{{ $own.digest }}
{{- else -}}
{{ $own.repository }}:{{ default $root.Chart.AppVersion $common.tag }}
{{- end -}}
{{- end -}}

{{/* The probes of a container; the argument is a component's values. */}}
{{- define "hawk.probes" -}}
startupProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: {{ div (add1 (int .startupSeconds)) 2 }}
livenessProbe:
  httpGet: {path: /healthz, port: metrics}
  periodSeconds: 15
  timeoutSeconds: 5
  failureThreshold: 4
readinessProbe:
  httpGet: {path: /readyz, port: metrics}
  periodSeconds: 5
  timeoutSeconds: 5
{{- end -}}

{{/* The agents' resources: what rdma.resources asks for is requested and limited alike. */}}
{{- define "hawk.agentResources" -}}
{{- $all := deepCopy .resources -}}
{{- range $part := list "requests" "limits" -}}
{{- $_ := set $all $part (merge (dict) $.rdma.resources (default (dict) (index $all $part))) -}}
{{- end -}}
{{- if .rdma.resourceClaims -}}
{{- $claims := default (list) $all.claims -}}
{{- range .rdma.resourceClaims }}{{ $claims = append $claims (dict "name" .name) }}{{ end -}}
{{- $_ := set $all "claims" $claims -}}
{{- end -}}
{{- toYaml $all -}}
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
{{- if and .Values.image.digest (not .Values.image.repository) -}}
{{- fail "image.digest: names one image, but image.repository is empty: set it too, or operator.image.digest and agent.image.digest" -}}
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
{{- if eq .Values.agent.socketAccess "DevicePlugin" }}
- --agent-access=device-plugin
{{- end }}
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
{{- if eq .Values.agent.socketAccess "DevicePlugin" }}
- --device-plugins={{ .Values.agent.devicePluginDirectory }}
{{- end }}
{{- with .Values.agent.transports }}
- --transports={{ join "," . }}
{{- end }}
{{- with .Values.agent.rails }}
- --rails={{ . }}
{{- end }}
{{- with .Values.agent.rdma.devices }}
- --rdma-device={{ join "," . }}
{{- end }}
- --kube
- --identity={{ eq .Values.trust.mode "Kubernetes" | ternary "kubernetes" "files" }}
- --tls-cert=/etc/hawk/tls/tls.crt
- --tls-key=/etc/hawk/tls/tls.key
- --tls-ca=/etc/hawk/tls/ca.crt
{{- with .Values.agent.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What the operator and the hooks run as; it satisfies the PodSecurity level restricted. */}}
{{- define "hawk.unprivileged" -}}
runAsNonRoot: true
{{- if not (kindIs "invalid" .Values.operator.runAsUser) }}
runAsUser: {{ int64 .Values.operator.runAsUser }}
{{- end }}
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "hawk.unprivilegedContainer" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Annotations of an object that is there while the cleanup runs; the argument is its weight. */}}
{{- define "hawk.cleanupHook" -}}
helm.sh/hook: post-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded,hook-failed
{{- end -}}

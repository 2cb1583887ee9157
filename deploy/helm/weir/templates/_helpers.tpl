{{- define "weir.name" -}}
{{- $name := ternary .Release.Name (printf "%s-weir" .Release.Name) (contains "weir" .Release.Name) }}
{{- $name | trunc 52 | trimSuffix "-" }}
{{- end }}

{{- define "weir.selector" -}}
app.kubernetes.io/name: weir
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "weir.labels" -}}
{{ include "weir.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "weir.clientLabels" -}}
{{ toYaml (.Values.networkPolicy.clientLabels | default (dict "weir-client" "true")) }}
{{- end }}

{{- /* A probe of a path. */}}
{{- define "weir.probe" -}}
httpGet:
  path: {{ .path }}
  port: http
  {{- if .tls }}
  scheme: HTTPS
  {{- end }}
timeoutSeconds: 2
{{- end }}

{{- /* The template of every pod. */}}
{{- define "weir.pod" -}}
metadata:
  labels:
    {{- include "weir.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  automountServiceAccountToken: false # weir asks nothing of Kubernetes
  terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532 # reads the secret and writes the volume
    seccompProfile:
      type: RuntimeDefault
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if eq .Values.store "redis" }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "weir.selector" . | nindent 10 }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  containers:
    - name: weir
      image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        - --policies=/etc/weir/policies/weir.yaml
        {{- if eq .Values.store "redis" }}
        - --store={{ .Values.redis.url }}
        - --instances={{ add .Values.redis.replicas 1 }} # with the pod of a rolling update
        {{- else if eq .Values.store "disk" }}
        - --store=file:/var/lib/weir/store # made by weir, with mode 0700
        - --max-memory={{ .Values.maxMemory }}
        {{- else }}
        - --store=memory
        - --max-memory={{ .Values.maxMemory }}
        {{- end }}
        - --listen=0.0.0.0:7070
        - --admin-listen=0.0.0.0:7072
        {{- if .Values.grpc }}
        - --grpc-listen=0.0.0.0:7071
        {{- end }}
        {{- if .Values.resp }}
        - --resp-listen=0.0.0.0:7073
        {{- end }}
        {{- with .Values.secretKeys.token }}
        - --token-file=/etc/weir/secrets/{{ . }}
        {{- end }}
        {{- with .Values.secretKeys.gateSecret }}
        - --gate-secret-file=/etc/weir/secrets/{{ . }}
        {{- end }}
        {{- with .Values.secretKeys.adminToken }}
        - --admin-token-file=/etc/weir/secrets/{{ . }}
        {{- end }}
        {{- if .Values.tlsSecret }}
        - --tls-cert=/etc/weir/tls/tls.crt
        - --tls-key=/etc/weir/tls/tls.key
        {{- end }}
        - --max-connections={{ .Values.maxConnections }}
        - --linger={{ .Values.linger }}
        - --drain={{ .Values.drain }}
        {{- with .Values.extraArgs }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - name: http
          containerPort: 7070
        - name: admin
          containerPort: 7072
        {{- if .Values.grpc }}
        - name: grpc
          containerPort: 7071
        {{- end }}
        {{- if .Values.resp }}
        - name: resp
          containerPort: 7073
        {{- end }}
      env:
        - name: GOMEMLIMIT
          value: {{ .Values.goMemLimit | quote }}
        {{- if and (eq .Values.store "redis") .Values.redis.passwordSecret }}
        - name: WEIR_REDIS_PASSWORD
          valueFrom:
            secretKeyRef:
              name: {{ .Values.redis.passwordSecret }}
              key: {{ .Values.redis.passwordKey }}
        {{- end }}
      resources:
        {{- toYaml .Values.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      livenessProbe: # never touches the store: if that is down, a restart helps nobody
        {{- include "weir.probe" (dict "path" "/livez" "tls" .Values.tlsSecret) | nindent 8 }}
        periodSeconds: 10
      readinessProbe:
        {{- include "weir.probe" (dict "path" "/readyz" "tls" .Values.tlsSecret) | nindent 8 }}
        periodSeconds: 2
        failureThreshold: 1
      volumeMounts:
        - name: policies
          mountPath: /etc/weir/policies
          readOnly: true
        - name: secrets
          mountPath: /etc/weir/secrets
          readOnly: true
        {{- if .Values.tlsSecret }}
        - name: tls
          mountPath: /etc/weir/tls
          readOnly: true
        {{- end }}
        {{- if eq .Values.store "disk" }}
        - name: store
          mountPath: /var/lib/weir
        {{- end }}
  volumes:
    - name: policies
      configMap:
        name: {{ include "weir.name" . }}-policies
    - name: secrets
      secret:
        secretName: {{ .Values.existingSecret }}
        defaultMode: 0440
    {{- if .Values.tlsSecret }}
    - name: tls
      secret:
        secretName: {{ .Values.tlsSecret }}
        defaultMode: 0440
    {{- end }}
{{- end }}

{{/* Labels of all that belongs to the venue. */}}
{{- define "fairbell.labels" -}}
app.kubernetes.io/name: fairbell
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Labels by which pods are chosen: they never change. */}}
{{- define "fairbell.selector" -}}
app.kubernetes.io/name: fairbell
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "fairbell.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Names of the files in a node's folder of keys: (dict "role" "root" "number" 1). */}}
{{- define "fairbell.keys" -}}
{{- $name := printf "%s-%d" .role .number -}}
{{- $files := list (printf "%s.pem" $name) (printf "%s.key.pem" $name) "gate.key" "generation" -}}
{{- if eq .role "root" -}}
{{- $files = concat $files (list (printf "replica-%d.pem" .number) (printf "replica-%d.key.pem" .number) "roots.secret" "issuer.pem" "issuer.key.pem") -}}
{{- end -}}
{{ toJson $files }}
{{- end }}

{{/* Ports of a role: name, offset from the first port, protocol. */}}
{{- define "fairbell.ports" -}}
{{- $ports := list (dict "name" "leader" "at" 5 "protocol" "UDP") (dict "name" "clock" "at" 6 "protocol" "UDP") (dict "name" "plan" "at" 15 "protocol" "UDP") -}}
{{- if eq . "root" -}}
{{- $ports = concat $ports (list (dict "name" "overlay" "at" 0 "protocol" "UDP") (dict "name" "repair" "at" 1 "protocol" "UDP") (dict "name" "link" "at" 2 "protocol" "TCP") (dict "name" "control" "at" 4 "protocol" "TCP")) -}}
{{- else if eq . "edge" -}}
{{- $ports = concat $ports (list (dict "name" "overlay" "at" 8 "protocol" "UDP") (dict "name" "feed" "at" 9 "protocol" "UDP") (dict "name" "ouch" "at" 10 "protocol" "TCP") (dict "name" "fix" "at" 11 "protocol" "TCP") (dict "name" "snapshots" "at" 12 "protocol" "TCP") (dict "name" "subscribe" "at" 14 "protocol" "TCP")) -}}
{{- else -}}
{{- $ports = append $ports (dict "name" "overlay" "at" 7 "protocol" "UDP") -}}
{{- end -}}
{{ toJson $ports }}
{{- end }}

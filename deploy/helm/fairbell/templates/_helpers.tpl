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

{{/* Roots of one shard: an odd number of up to nine. */}}
{{- define "fairbell.group" -}}
{{- $all := int .Values.roles.root.replicas -}}
{{- $shards := int .Values.shards -}}
{{- $each := div $all $shards -}}
{{- if or (ne (mul $each $shards | int) $all) (not (has (int $each) (list 1 3 5 7 9))) -}}
{{- fail (printf "roles.root.replicas: %d roots are not 1, 3, 5, 7 or 9 for each of %d shards" $all $shards) -}}
{{- end -}}
{{ $each }}
{{- end }}

{{/* Pods of a role that there may be: (dict "values" .Values "role" "edge"). */}}
{{- define "fairbell.most" -}}
{{- $of := index .values.roles .role -}}
{{- if and .values.scale.enabled (eq .role "edge") -}}
{{ max (int $of.replicas) (int $of.most) }}
{{- else -}}
{{ int $of.replicas }}
{{- end -}}
{{- end }}

{{/* Names of the files in a node's folder of keys: (dict "role" "root" "number" 1 "group" 3). */}}
{{- define "fairbell.keys" -}}
{{- $name := printf "%s-%d" .role .number -}}
{{- $files := list (printf "%s.pem" $name) (printf "%s.key.pem" $name) "gate.key" "generation" -}}
{{- if eq .role "root" -}}
{{- $files = concat $files (list (printf "replica-%d.pem" (add1 (mod (sub .number 1) .group))) (printf "replica-%d.key.pem" (add1 (mod (sub .number 1) .group))) "roots.secret" "issuer.pem" "issuer.key.pem") -}}
{{- end -}}
{{ toJson $files }}
{{- end }}

{{/* Ports of a role: name, offset from the first port, protocol: (dict "role" "edge" "shards" 1). */}}
{{- define "fairbell.ports" -}}
{{- $ports := list (dict "name" "leader" "at" 5 "protocol" "UDP") (dict "name" "clock" "at" 6 "protocol" "UDP") (dict "name" "plan" "at" 15 "protocol" "UDP") -}}
{{- $own := .role -}}
{{- if eq .role "root" -}}
{{- $ports = concat $ports (list (dict "name" "overlay" "at" 0 "protocol" "UDP") (dict "name" "repair" "at" 1 "protocol" "UDP") (dict "name" "link" "at" 2 "protocol" "TCP") (dict "name" "control" "at" 4 "protocol" "TCP")) -}}
{{- else if eq .role "edge" -}}
{{- $ports = concat $ports (list (dict "name" "overlay" "at" 8 "protocol" "UDP") (dict "name" "feed" "at" 9 "protocol" "UDP") (dict "name" "ouch" "at" 10 "protocol" "TCP") (dict "name" "fix" "at" 11 "protocol" "TCP") (dict "name" "snapshots" "at" 12 "protocol" "TCP") (dict "name" "web" "at" 13 "protocol" "TCP") (dict "name" "subscribe" "at" 14 "protocol" "TCP")) -}}
{{- else -}}
{{- $ports = append $ports (dict "name" "overlay" "at" 7 "protocol" "UDP") -}}
{{- end -}}
{{- if and (eq .role "root") (gt (int .shards) 1) -}}
{{- $ports = append $ports (dict "name" "shards" "at" 3 "protocol" "UDP") -}}
{{- end -}}
{{- if ne .role "root" -}}
{{- range $shard := untilStep 1 (int .shards) 1 -}}
{{- $at := add 16 (mul 2 (sub $shard 1)) (ternary 1 0 (eq $own "edge")) -}}
{{- $ports = append $ports (dict "name" (printf "overlay-%d" (add1 $shard)) "at" $at "protocol" "UDP") -}}
{{- end -}}
{{- end -}}
{{ toJson $ports }}
{{- end }}

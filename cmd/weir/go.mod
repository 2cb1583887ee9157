module github.com/weirlimit/weir/cmd/weir

go 1.26.0

require (
	github.com/coreos/go-systemd/v22 v22.7.0 // sockets and states of a service by the protocols of systemd
	github.com/dunglas/httpsfv v1.1.2 // tests: another reader of structured fields, to read ours
	github.com/envoyproxy/go-control-plane/envoy v1.40.0 // the messages of Envoy's protocol, of its newest version
	github.com/go-json-experiment/json v1.27.2 // JSON as strict as requests need it, without allocations
	github.com/google/jsonschema-go v0.4.3 // tests: the words of JSON Schema, to write openapi.json with
	github.com/klauspost/compress v1.20.3 // zstd for compressed access logs
	github.com/prometheus/client_golang v1.25.0 // counters, histograms and their text format, and the metrics of the process
	github.com/prometheus/client_model v0.6.3 // the messages of metrics, to read our own histograms
	github.com/redis/go-redis/v9 v9.23.0 // tests: the Redis client that most Go programs use
	github.com/redis/rueidis v1.0.79 // a Redis client that pipelines, for servers, Sentinels and Clusters
	github.com/rogpeppe/go-internal v1.16.0 // tests of the program that read like a terminal
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3 // tests: a strict validator of schemas
	github.com/spf13/cobra v1.10.2 // verbs, flags, help and shell completion
	github.com/spf13/pflag v1.0.10 // cobra's flags, for errors that name the wrong one
	github.com/weirlimit/weir v0.0.0
	github.com/weirlimit/weir/weirredis/goredisconn v0.0.0
	github.com/weirlimit/weir/weirredis/rueidisconn v0.0.0
	go.opentelemetry.io/otel v1.47.0 // spans, as OpenTelemetry defines them
	go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp v1.47.0 // sends spans to a collector
	go.opentelemetry.io/otel/sdk v1.47.0 // sampling and batches of spans
	go.opentelemetry.io/otel/trace v1.47.0 // spans of callers
	go.opentelemetry.io/proto/otlp v1.11.0 // tests: the messages of collectors, to read our spans
	go.yaml.in/yaml/v4 v4.0.0 // YAML as nodes with the place of every word
	golang.org/x/net v0.60.0 // names and values of headers that HTTP permits; HTTP/2 frames in tests
	google.golang.org/grpc v1.84.0 // gRPC, with its health service
	google.golang.org/protobuf v1.36.12 // the types that all messages share, and their JSON form
)

require (
	cel.dev/expr v0.25.2 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/cenkalti/backoff/v5 v5.0.3 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.30.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/munnerz/goautoneg v0.0.0-20191010083416-a7dc8b61c822 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	github.com/prometheus/common v0.72.0 // indirect
	github.com/prometheus/procfs v0.22.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/exporters/otlp/otlptrace v1.47.0 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/tools v0.49.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260928230214-8a89bd6388cc // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260928230214-8a89bd6388cc // indirect
)

replace (
	github.com/weirlimit/weir => ../..
	github.com/weirlimit/weir/weirredis/goredisconn => ../../weirredis/goredisconn
	github.com/weirlimit/weir/weirredis/rueidisconn => ../../weirredis/rueidisconn
)

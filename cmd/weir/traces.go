package main

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/internal/otlp"
	"github.com/weirlimit/weir/internal/server"
)

// traceOptions are the flags that say whether and where spans of decisions go.
type traceOptions struct {
	endpoint string
	ratio    float64
}

// addFlags adds them to weir serve.
func (o *traceOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.endpoint, "otlp-endpoint", "",
		"the `URL` of an OpenTelemetry collector for a span of each decision, such as http://127.0.0.1:4318; or set $OTEL_EXPORTER_OTLP_ENDPOINT; default: no traces")
	f.Float64Var(&o.ratio, "otlp-ratio", 0.01, "of the calls that come without a trace, the share that begins one, 0 to 1")
}

// flush is how long the last spans may take at the end.
const flush = 2 * time.Second

// open begins to trace, if a flag or the environment says so. The function it returns
// sends the last spans.
func (o *traceOptions) open(c *server.Config, log *slog.Logger) (end func(), err error) {
	endpoint, source := o.endpoint, "--otlp-endpoint"
	if endpoint == "" {
		endpoint, source = os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), "$OTEL_EXPORTER_OTLP_ENDPOINT"
		if endpoint != "" {
			endpoint = strings.TrimSuffix(endpoint, "/") + "/v1/traces" // as its own documentation has it
		}
	}
	if endpoint == "" {
		return func() {}, nil
	}
	headers, err := otlpHeaders(os.Getenv("OTEL_EXPORTER_OTLP_HEADERS"))
	if err != nil {
		return nil, err
	}
	t, err := otlp.New(otlp.Config{Endpoint: endpoint, Headers: headers, Service: os.Getenv("OTEL_SERVICE_NAME"),
		Version: c.Version, Ratio: o.ratio, Log: log})
	if err != nil {
		return nil, usage("such as --otlp-endpoint http://127.0.0.1:4318 --otlp-ratio 0.01", "%s: %w", source, err)
	}
	c.Tracer = t
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), flush)
		defer cancel()
		if err := t.Close(ctx); err != nil {
			log.Warn("the last spans are lost", "error", err)
		}
	}, nil
}

// otlpHeaders reads name=value,… with values escaped as in URLs.
func otlpHeaders(text string) (map[string]string, error) {
	headers := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(part) == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil {
			return nil, usage("such as api-key=…,other=…", "$OTEL_EXPORTER_OTLP_HEADERS is no list of name=value") // the value may be secret
		}
		headers[strings.TrimSpace(name)] = value
	}
	return headers, nil
}

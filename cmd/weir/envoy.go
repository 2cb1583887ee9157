package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/filewatch"
)

// envoyOptions are the flags of Envoy's rate limit service.
type envoyOptions struct {
	envoy.Options
	listen, config, windows, headers, storeDown string
}

// addFlags adds the flags to weir serve.
func (o *envoyOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "grpc-listen", "", "the `ADDRESS` of Envoy's rate limit service over gRPC, host:port or unix:/path; default: none")
	f.StringVar(&o.config, "envoy-config", "", "the `PATH` of a configuration of Envoy's reference rate limit service: a file or a directory of files")
	f.DurationVar(&o.MaxConnectionAge, "grpc-max-connection-age", 0, "the longest life of a gRPC connection, so that clients find new servers; 0 = without bound")
	f.StringVar(&o.windows, "envoy-windows", "rolling", "the `KIND` of its windows: rolling, fixed as in the reference, or calendar-month, which is fixed but for months")
	f.StringVar(&o.headers, "envoy-headers", "none", "`WHERE` to put header fields with the limit and the units left: response, request, both or none")
	f.StringVar(&o.storeDown, "envoy-when-store-is-down", "deny", "the `MODE` of its limits in an outage of the store: deny (an error), allow or share")
	group(cmd, "Envoy's rate limit service:")
}

// readEnvironment sets options from the variables of the reference service, unless
// a flag sets them, so that deployments can move to weir unchanged. It writes a note
// with the names of the variables.
func (o *envoyOptions) readEnvironment(cmd *cobra.Command, stderr io.Writer) {
	if o.config == "" {
		return
	}
	var used []string
	for _, v := range []struct{ name, flag, value string }{
		{"LIMIT_RESPONSE_HEADERS_ENABLED", "envoy-headers", "response"},
		{"LIMIT_REQUEST_HEADERS_ENABLED", "envoy-headers", "request"},
	} {
		flag := cmd.Flags().Lookup(v.flag)
		if flag.Changed || !slices.Contains([]string{"true", "1", "t"}, strings.ToLower(os.Getenv(v.name))) {
			continue
		}
		if v.value == "request" && o.headers == "response" {
			v.value = "both"
		}
		flag.Value.Set(v.value)
		used = append(used, v.name)
	}
	const age = "GRPC_MAX_CONNECTION_AGE"
	if d, err := time.ParseDuration(os.Getenv(age)); err == nil && d > 0 && !cmd.Flags().Changed("grpc-max-connection-age") {
		o.MaxConnectionAge = d
		used = append(used, age)
	}
	if len(used) > 0 {
		fmt.Fprintf(stderr, "weir: note: the environment sets %s, which applies to --envoy-config\n", strings.Join(used, ", "))
	}
}

// configure sets the fields of c.
func (o *envoyOptions) configure(c *server.Config) error {
	c.GRPCListen = o.listen
	if o.MaxConnectionAge < 0 {
		return usage("write 30m, for example; 0 = without bound", "--grpc-max-connection-age must be 0 or more, not %v", o.MaxConnectionAge)
	}
	var err error
	if o.Windows, err = envoy.ParseWindows(o.windows); err != nil {
		return usage("rolling is exact; fixed allows up to twice the limit across an edge", "--envoy-windows: %w", err)
	}
	modes := map[string]engine.Outage{"deny": fallback.Deny, "allow": fallback.Allow, "share": fallback.Share}
	var known bool
	if o.Outage, known = modes[o.storeDown]; !known {
		return usage("deny keeps the limits, allow keeps requests going, share keeps both in part",
			"--envoy-when-store-is-down must be deny, allow or share, not %q", o.storeDown)
	}
	switch o.headers {
	case "none":
	case "response":
		o.Response = headerNames("LIMIT_")
	case "request":
		o.Request = headerNames("LIMIT_REQUEST_")
	case "both":
		o.Response, o.Request = headerNames("LIMIT_"), headerNames("LIMIT_REQUEST_")
	default:
		return usage("response adds fields to the client's answer, request to the forwarded request", "--envoy-headers must be response, request, both or none, not %q", o.headers)
	}
	c.EnvoyOptions = o.Options
	if o.config != "" {
		c.Envoy, err = o.load()
	}
	return err
}

func (o *envoyOptions) load() (*envoyconf.Config, error) {
	c, err := envoyconf.Load(o.config)
	if err != nil {
		return nil, &failure{code: exitUsage, err: err}
	}
	return c, nil
}

// headerNames returns the names of the reference service, or those of its variables.
func headerNames(prefix string) *envoy.Headers {
	h := envoy.DefaultHeaders
	for name, to := range map[string]*string{"LIMIT_HEADER": &h.Limit, "REMAINING_HEADER": &h.Remaining, "RESET_HEADER": &h.Reset} {
		if v := os.Getenv(prefix + name); v != "" {
			*to = v
		}
	}
	return &h
}

// newReloader returns the reloader of the configuration. seen is the fingerprint of the
// one in force.
func (o *envoyOptions) newReloader(s *server.Server, seen []byte, log *slog.Logger) *reloader {
	r := &reloader{
		watch: filewatch.Watcher{Path: o.config, Seen: seen, Warn: polled(log, "Envoy configuration"),
			Read: func() ([]byte, error) { return envoyconf.Fingerprint(o.config) }},
		load: func([]byte) (func() error, error) {
			config, err := o.load()
			return func() error { return s.ReloadEnvoy(config) }, err
		},
		failed: s.ReloadEnvoyFailed,
	}
	if info, err := os.Stat(o.config); err == nil && info.IsDir() {
		r.watch.Path = filepath.Join(o.config, "any") // a Watcher watches the directory of its path
	}
	return r
}

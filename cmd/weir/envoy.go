package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/filewatch"
	"github.com/weirlimit/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/internal/server"
)

// envoyOptions are the flags of Envoy's rate limit service.
type envoyOptions struct {
	listen, config, windows, headers, storeDown string
	maxAge                                      time.Duration
	metadata, shadow, quota, merge              bool
}

// addFlags adds them to weir serve.
func (o *envoyOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.listen, "grpc-listen", "", "the `ADDRESS` of Envoy's rate limit service over gRPC, host:port or unix:/path; default: none")
	f.StringVar(&o.config, "envoy-config", "", "a `PATH` with a configuration of Envoy's reference rate limit service: a file, or a directory of them")
	f.DurationVar(&o.maxAge, "grpc-max-connection-age", 0, "how `LONG` a gRPC connection may last before its client is asked to connect anew, so that clients find new servers; 0 = for ever")
	f.StringVar(&o.windows, "envoy-windows", "rolling", "what its periods `ARE`: rolling, fixed as the reference has them, or calendar-month, which is fixed but for months")
	f.StringVar(&o.headers, "envoy-headers", "none", "whose header fields `SAY` what is left: response, request, both or none")
	f.StringVar(&o.storeDown, "envoy-when-store-is-down", "deny", "what becomes of its limits while the store is out: `WORD` deny (an error), allow or local")
	f.BoolVar(&o.metadata, "envoy-metadata", false, "tell in dynamic_metadata what was asked and what rules with metadata say")
	f.BoolVar(&o.shadow, "envoy-shadow", false, "answer OK whatever was decided")
	f.BoolVar(&o.quota, "envoy-quota", false, "take every rule as one with quota_mode")
	f.BoolVar(&o.merge, "envoy-merge-domains", false, "let several files add to one domain")
}

// fromEnvironment takes what the reference's environment says where no flag does: a
// deployment of it moves over as it is. It tells what it took.
func (o *envoyOptions) fromEnvironment(cmd *cobra.Command, stderr io.Writer) {
	if o.config == "" {
		return
	}
	on := func(name string) bool {
		v := strings.ToLower(os.Getenv(name))
		return v == "true" || v == "1" || v == "t"
	}
	var taken []string
	take := func(flag, name string, set func()) {
		if on(name) && !cmd.Flags().Changed(flag) {
			set()
			taken = append(taken, name)
		}
	}
	take("envoy-headers", "LIMIT_RESPONSE_HEADERS_ENABLED", func() { o.headers = "response" })
	take("envoy-headers", "LIMIT_REQUEST_HEADERS_ENABLED", func() {
		if o.headers = "request"; on("LIMIT_RESPONSE_HEADERS_ENABLED") {
			o.headers = "both"
		}
	})
	take("envoy-metadata", "RESPONSE_DYNAMIC_METADATA", func() { o.metadata = true })
	take("envoy-shadow", "SHADOW_MODE", func() { o.shadow = true })
	take("envoy-quota", "QUOTA_MODE", func() { o.quota = true })
	take("envoy-merge-domains", "MERGE_DOMAIN_CONFIG", func() { o.merge = true })
	const age = "GRPC_MAX_CONNECTION_AGE"
	if d, err := time.ParseDuration(os.Getenv(age)); err == nil && d > 0 && !cmd.Flags().Changed("grpc-max-connection-age") {
		o.maxAge = d
		taken = append(taken, age)
	}
	if len(taken) > 0 {
		fmt.Fprintf(stderr, "weir: note: the environment sets %s, so that holds for --envoy-config\n", strings.Join(taken, ", "))
	}
}

// configure reads what the flags name into c.
func (o *envoyOptions) configure(c *server.Config) error {
	c.GRPCListen = o.listen
	if o.maxAge < 0 {
		return usage("such as 30m; 0 = for ever", "--grpc-max-connection-age must not be negative, and is %v", o.maxAge)
	}
	windows, err := envoy.ParseWindows(o.windows)
	if err != nil {
		return usage("rolling is exact; fixed lets up to twice the limit through across an edge", "--envoy-windows: %w", err)
	}
	e := envoy.Options{Windows: windows, Metadata: o.metadata, Shadow: o.shadow, Quota: o.quota, MaxConnectionAge: o.maxAge}
	if e.Outage, err = outageMode(o.storeDown); err != nil {
		return err
	}
	switch o.headers {
	case "none":
	case "response":
		e.Response = headerNames("LIMIT_")
	case "request":
		e.Request = headerNames("LIMIT_REQUEST_")
	case "both":
		e.Response, e.Request = headerNames("LIMIT_"), headerNames("LIMIT_REQUEST_")
	default:
		return usage("fields of the client's answer, or of the request on its way", "--envoy-headers is response, request, both or none, not %q", o.headers)
	}
	c.EnvoyOptions = e
	if o.config != "" {
		c.Envoy, err = o.load()
	}
	return err
}

func (o *envoyOptions) load() (*envoyconf.Config, error) {
	c, err := envoyconf.Load(o.config, envoyconf.Options{MergeDomains: o.merge})
	if err != nil {
		return nil, &failure{code: exitUsage, err: err}
	}
	return c, nil
}

func outageMode(word string) (fallback.Mode, error) {
	switch word {
	case "deny":
		return fallback.FailClosed, nil
	case "allow":
		return fallback.FailOpen, nil
	case "local":
		return fallback.Local, nil
	}
	return 0, usage("deny holds the limits, allow keeps the work going, local does some of both",
		"--envoy-when-store-is-down is deny, allow or local, not %q", word)
}

// headerNames are those of the reference, or of its environment.
func headerNames(prefix string) *envoy.Headers {
	h := envoy.DefaultHeaders
	for name, to := range map[string]*string{"LIMIT_HEADER": &h.Limit, "REMAINING_HEADER": &h.Remaining, "RESET_HEADER": &h.Reset} {
		if v := os.Getenv(prefix + name); v != "" {
			*to = v
		}
	}
	return &h
}

// watch reloads s whenever what the configuration is made of changes, and at SIGHUP,
// until ctx is done.
func (o *envoyOptions) watch(ctx context.Context, s *server.Server, seen []byte, log *slog.Logger) {
	reload := make(chan error, 1)
	stop := atHangup(func() {
		select {
		case reload <- nil:
		default:
		}
	})
	defer stop()
	w := filewatch.Watcher{Path: o.config, Seen: seen, Read: func() ([]byte, error) { return envoyconf.Fingerprint(o.config) },
		Warn: func(err error) {
			log.Warn("changes of the Envoy configuration are found by looking every few seconds", "why", err)
		}}
	if info, err := os.Stat(o.config); err == nil && info.IsDir() {
		w.Path = filepath.Join(o.config, "any") // of its directory, notes are wanted
	}
	go w.Run(ctx, func(c filewatch.Content) {
		select {
		case reload <- c.Err:
		case <-ctx.Done():
		}
	})
	for {
		select {
		case err := <-reload:
			o.reload(s, err)
		case <-ctx.Done():
			return
		}
	}
}

// reload puts the configuration in force, whole or not at all. The server logs which.
func (o *envoyOptions) reload(s *server.Server, err error) {
	defer debug.FreeOSMemory() // a large file that was parsed in vain is not kept
	var c *envoyconf.Config
	if err == nil {
		c, err = o.load()
	}
	if err != nil {
		s.ReloadEnvoyFailed(err)
		return
	}
	s.ReloadEnvoy(c)
}

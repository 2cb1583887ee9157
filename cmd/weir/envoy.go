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

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
	"github.com/weirlimit/weir/cmd/weir/internal/server"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/filewatch"
)

// envoyOptions are the settings of Envoy's rate limit service.
type envoyOptions struct {
	envoy.Options
	config, windows, headers, storeDown string
}

// readEnvironment sets options from the variables of the reference service, unless
// a flag sets them, so that deployments can move to weir unchanged. It writes a note
// with the names of the variables.
func (o *envoyOptions) readEnvironment(table settings, stderr io.Writer) {
	if o.config == "" {
		return
	}
	var used []string
	set := func(variable, name, value string) {
		if s := table.setting(name); !strings.HasPrefix(s.source, "--") {
			s.value.Set(value)
			s.source, s.place = "$"+variable, nil
			used = append(used, variable)
		}
	}
	headers := ""
	for _, v := range []struct{ name, value string }{{"LIMIT_RESPONSE_HEADERS_ENABLED", "response"}, {"LIMIT_REQUEST_HEADERS_ENABLED", "request"}} {
		if slices.Contains([]string{"true", "1", "t"}, strings.ToLower(os.Getenv(v.name))) {
			if headers != "" {
				v.value = "both"
			}
			headers = v.value
			set(v.name, "envoy-headers", v.value)
		}
	}
	const age = "GRPC_MAX_CONNECTION_AGE"
	if d, err := time.ParseDuration(os.Getenv(age)); err == nil && d > 0 {
		set(age, "grpc-max-connection-age", d.String())
	}
	if len(used) > 0 {
		fmt.Fprintf(stderr, "weir: note: the environment sets %s, which applies to --envoy-config\n", strings.Join(used, ", "))
	}
}

// configure sets the fields of c.
func (o *envoyOptions) configure(c *server.Config) (err error) {
	o.Windows, _ = envoy.ParseWindows(o.windows) // succeeds: it is one of the words of the setting
	o.Outage = map[string]engine.Outage{"deny": fallback.Deny, "allow": fallback.Allow, "share": fallback.Share}[o.storeDown]
	if o.headers == "response" || o.headers == "both" {
		o.Response = headerNames("LIMIT_")
	}
	if o.headers == "request" || o.headers == "both" {
		o.Request = headerNames("LIMIT_REQUEST_")
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

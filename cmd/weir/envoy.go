package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

// readEnvoyEnvironment sets settings of Envoy's rate limit service from the variables of the
// reference service, unless a flag sets them, so that deployments can move to weir unchanged.
// It writes a note with the names of the variables.
func (o *serveOptions) readEnvoyEnvironment(table settings, stderr io.Writer) {
	if o.envoyConfig == "" {
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

// configureEnvoy sets the header fields and the rules of Envoy's rate limit service.
func (o *serveOptions) configureEnvoy() (err error) {
	c := &o.config
	if o.envoyHeaders == "response" || o.envoyHeaders == "both" {
		c.EnvoyOptions.Response = envoyHeaderNames("LIMIT_")
	}
	if o.envoyHeaders == "request" || o.envoyHeaders == "both" {
		c.EnvoyOptions.Request = envoyHeaderNames("LIMIT_REQUEST_")
	}
	if o.envoyConfig != "" {
		c.Envoy, err = envoyconf.Load(o.envoyConfig)
	}
	return err
}

// envoyHeaderNames returns the names of the reference service, or those of its variables.
func envoyHeaderNames(prefix string) *envoy.Headers {
	h := envoy.DefaultHeaders
	for name, to := range map[string]*string{"LIMIT_HEADER": &h.Limit, "REMAINING_HEADER": &h.Remaining, "RESET_HEADER": &h.Reset} {
		if v := os.Getenv(prefix + name); v != "" {
			*to = v
		}
	}
	return &h
}

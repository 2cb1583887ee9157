package main

import (
	"os"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoyconf"
)

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

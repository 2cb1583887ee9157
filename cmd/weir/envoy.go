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
		c.EnvoyOptions.Response, err = envoyHeaderNames("LIMIT_")
	}
	if err == nil && (o.envoyHeaders == "request" || o.envoyHeaders == "both") {
		c.EnvoyOptions.Request, err = envoyHeaderNames("LIMIT_REQUEST_")
	}
	if err == nil && o.envoyConfig != "" {
		c.Envoy, err = envoyconf.Load(o.envoyConfig)
	}
	return err
}

// envoyHeaderNames returns the names of the reference service, or those of its variables.
func envoyHeaderNames(prefix string) (_ *envoy.Headers, err error) {
	h := envoy.DefaultHeaders
	for name, to := range map[string]*string{"LIMIT_HEADER": &h.Limit, "REMAINING_HEADER": &h.Remaining, "RESET_HEADER": &h.Reset} {
		if v := os.Getenv(prefix + name); v != "" {
			if *to = v; isField(v) != nil {
				err = usage("", "$%s%s %w", prefix, name, isField(v))
			}
		}
	}
	return &h, err
}

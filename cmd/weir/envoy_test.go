package main

import (
	"reflect"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestEnvoyHeaders: --envoy-headers chooses which message has the header fields.
func TestEnvoyHeaders(t *testing.T) {
	for headers, want := range map[string]envoy.Options{
		"none":     {},
		"response": {Response: true},
		"request":  {Request: true},
		"both":     {Response: true, Request: true},
	} {
		o := serveOptions{envoyHeaders: headers}
		must.Do(t, o.configureEnvoy())
		if got := o.config.EnvoyOptions; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", headers, got, want)
		}
	}
}

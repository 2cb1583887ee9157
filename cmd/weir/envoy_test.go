package main

import (
	"reflect"
	"testing"

	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// Header fields have the names of the reference service, or those of its variables.
func TestEnvoyHeaderNames(t *testing.T) {
	t.Setenv("LIMIT_LIMIT_HEADER", "x-limit")
	t.Setenv("LIMIT_REQUEST_RESET_HEADER", "x-reset")
	response := envoy.Headers{Limit: "x-limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
	request := envoy.Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "x-reset"}
	for headers, want := range map[string]envoy.Options{"none": {}, "response": {Response: &response}, "request": {Request: &request}, "both": {Response: &response, Request: &request}} {
		o := serveOptions{envoyHeaders: headers}
		must.Do(t, o.configureEnvoy())
		if got := o.config.EnvoyOptions; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", headers, got, want)
		}
	}
}

package integrations

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
	"google.golang.org/protobuf/encoding/protojson"

	bootstrap "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	lua "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/lua/v3"
	filter "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3"
	manager "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestEnvoySnippet parses the snippet with Envoy's own definitions, so names and values
// are valid. It runs no Envoy.
func TestEnvoySnippet(t *testing.T) {
	for _, o := range allOptions() {
		if o.Secret {
			continue
		}
		files, err := Render("envoy", o)
		if err != nil {
			t.Fatal(err)
		}
		var config bootstrap.Bootstrap
		if err := protojson.Unmarshal(asJSON(t, files[0].Text), &config); err != nil {
			t.Fatalf("%+v: %v\n%s", o, err, files[0].Text)
		}
		valid := func(message interface{ ValidateAll() error }) {
			if err := message.ValidateAll(); err != nil {
				t.Errorf("%+v: %v", o, err)
			}
		}
		valid(&config)
		var connections manager.HttpConnectionManager
		network := config.GetStaticResources().GetListeners()[0].GetFilterChains()[0].GetFilters()[0]
		must.Do(t, network.GetTypedConfig().UnmarshalTo(&connections))
		valid(&connections)
		filters := connections.GetHttpFilters()
		if o.Header != "" {
			var script lua.Lua
			must.Do(t, filters[0].GetTypedConfig().UnmarshalTo(&script))
			valid(&script)
			if !strings.Contains(script.GetDefaultSourceCode().GetInlineString(), `getNumValues("`+o.Header+`") ~= 1`) {
				t.Errorf("%+v: the script does not count the lines of the key", o)
			}
			filters = filters[1:]
		}
		var limit filter.RateLimit
		must.Do(t, filters[0].GetTypedConfig().UnmarshalTo(&limit))
		valid(&limit)
		if limit.FailureModeDeny == o.Allow || limit.Timeout.AsDuration().Milliseconds() != 100 {
			t.Errorf("%+v: failure_mode_deny %t, timeout %v", o, limit.FailureModeDeny, limit.Timeout.AsDuration())
		}
		if o.OfPolicy {
			if len(files) != 1 {
				t.Errorf("%+v: %d files; the rules of the policy suffice", o, len(files))
			}
			continue
		}
		// The descriptors of Envoy must be those of weir's file.
		key := "masked_remote_address"
		if o.Header != "" {
			key = "ip"
		}
		var rules struct {
			Domain      string
			Descriptors []struct{ Key string }
		}
		must.Do(t, yaml.Unmarshal([]byte(files[1].Text), &rules))
		if rules.Domain != limit.Domain || len(rules.Descriptors) != 1 || rules.Descriptors[0].Key != key {
			t.Errorf("%+v: weir limits %+v, Envoy asks for %s, %s", o, rules, limit.Domain, key)
		}
	}
}

// asJSON converts YAML to JSON.
func asJSON(t *testing.T, text string) []byte {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

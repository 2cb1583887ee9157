package integrations

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// traefikFile is the part of Traefik's dynamic configuration that the snippet uses.
// Unknown names are errors.
type traefikFile struct {
	HTTP struct {
		Routers map[string]struct {
			Rule, Service string
			Middlewares   []string
		}
		Middlewares map[string]struct {
			Headers struct {
				CustomRequestHeaders map[string]string `yaml:"customRequestHeaders"`
			}
			ForwardAuth struct {
				Address            string
				TrustForwardHeader bool     `yaml:"trustForwardHeader"`
				AuthRequestHeaders []string `yaml:"authRequestHeaders"`
			} `yaml:"forwardAuth"`
		}
		Services map[string]struct {
			LoadBalancer struct {
				Servers []struct{ URL string }
			} `yaml:"loadBalancer"`
		}
	} `yaml:"http"`
}

// TestTraefikSnippet checks the form of the snippet and the references between its
// parts. It runs no Traefik.
func TestTraefikSnippet(t *testing.T) {
	for _, o := range allOptions() {
		files, err := Render("traefik", o)
		if err != nil {
			continue // TestRenderRejectsOptions says which
		}
		var f traefikFile
		decoder := yaml.NewDecoder(strings.NewReader(files[0].Text))
		decoder.KnownFields(true)
		if err := decoder.Decode(&f); err != nil {
			t.Fatalf("%+v: %v\n%s", o, err, files[0].Text)
		}
		router := f.HTTP.Routers["app"]
		if _, ok := f.HTTP.Services[router.Service]; !ok {
			t.Errorf("%+v: no service %s", o, router.Service)
		}
		for _, name := range router.Middlewares {
			if _, ok := f.HTTP.Middlewares[name]; !ok {
				t.Errorf("%+v: no middleware %s", o, name)
			}
		}
		if len(router.Middlewares) != len(f.HTTP.Middlewares) || slices.Contains(router.Middlewares, "weir-secret") != o.Secret {
			t.Errorf("%+v: middlewares %v of %d", o, router.Middlewares, len(f.HTTP.Middlewares))
		}
		auth := f.HTTP.Middlewares["weir"].ForwardAuth
		want := url.Values{"address.ip": {"X-Forwarded-For"}}
		sent := "X-Forwarded-For"
		if o.Header != "" {
			want, sent = url.Values{"header.ip": {o.Header}}, o.Header
		}
		if o.PlanHeader != "" {
			want["header.plan"] = []string{o.PlanHeader}
		}
		address, err := url.Parse(auth.Address)
		if err != nil || address.Path != "/gate/search" || address.Query().Encode() != want.Encode() {
			t.Errorf("%+v: asks %s, %v; want the query %s", o, auth.Address, err, want.Encode())
		}
		if auth.TrustForwardHeader || !slices.Contains(auth.AuthRequestHeaders, sent) || slices.Contains(auth.AuthRequestHeaders, "X-Plan") != (o.PlanHeader != "") || slices.Contains(auth.AuthRequestHeaders, "Weir-Gate-Secret") != o.Secret {
			t.Errorf("%+v: sends %v", o, auth.AuthRequestHeaders)
		}
	}
}

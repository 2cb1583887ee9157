package integrations

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

var rewrite = flag.Bool("rewrite", false, "write the files beside the templates")

// The files beside a template are the template with the defaults. After a change of
// a template, run the test with -rewrite and review the files.
func TestFilesForReaders(t *testing.T) {
	for _, r := range snippets {
		for name, allow := range map[string]bool{"allow": true, "deny": false} {
			if allow && r.noAllow != "" {
				continue
			}
			made, err := Render(r.name, Options{Allow: allow})
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range made {
				dir := filepath.Join(r.name, name)
				path := filepath.Join(dir, f.Name)
				if *rewrite {
					os.MkdirAll(dir, 0o777)
					must.Do(t, os.WriteFile(path, []byte(f.Text), 0o666))
				}
				got, err := os.ReadFile(path)
				if err != nil || string(got) != f.Text {
					t.Errorf("%s differs from the template (%v); run go test ./cmd/weir/internal/integrations -run FilesForReaders -rewrite, and review it", path, err)
				}
			}
		}
	}
}

// With all options a snippet has no rest of the template and no line that ends in
// spaces.
func TestSnippetsAreTidy(t *testing.T) {
	for _, o := range allOptions() {
		for _, name := range Names() {
			files, err := Render(name, o)
			if err != nil {
				continue // TestRenderRejectsOptions lists them
			}
			for _, f := range files {
				if strings.Contains(f.Text, "[[") && name != "traefik" || strings.Contains(f.Text, "<no value>") || strings.Contains(f.Text, "\n\n\n") {
					t.Errorf("%s %s %+v:\n%s", name, f.Name, o, f.Text)
				}
				for i, line := range strings.Split(f.Text, "\n") {
					if strings.TrimRight(line, " \t") != line {
						t.Errorf("%s %s:%d ends in spaces: %q", name, f.Name, i+1, line)
					}
				}
			}
		}
	}
}

// allOptions returns the options that change the text, in every combination.
func allOptions() (all []Options) {
	for _, allow := range []bool{false, true} {
		for _, secret := range []bool{false, true} {
			for _, header := range []string{"", "X-User"} {
				for _, weir := range []string{"", "127.0.0.1:9999", "unix:/run/weir/weir.sock"} {
					o := Options{Allow: allow, Secret: secret, Header: header, Weir: weir}
					planned := o
					planned.OfPolicy, planned.PlanBy, planned.PlanHeader = true, "plan", "X-Plan"
					all = append(all, o, planned)
				}
			}
		}
	}
	return all
}

func TestRenderRejectsOptions(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		want    string
	}{
		{"apache", Options{}, "there are nginx, haproxy, caddy, traefik, envoy"},
		{"nginx", Options{Policy: "a;b"}, `"a;b" is not a name of a policy`},
		{"nginx", Options{Dimension: "a b"}, `"a b" is not a name of a dimension`},
		{"nginx", Options{Header: "X_User"}, `"X_User" is not a name of a header field`},
		{"nginx", Options{Header: "X-User;\n"}, "is not a name of a header field"},
		{"nginx", Options{Header: "host"}, "the header field host cannot be the key"},
		{"caddy", Options{Header: "X-Forwarded-For"}, "the header field X-Forwarded-For cannot be the key"},
		{"nginx", Options{PlanBy: "plan", PlanHeader: "a b"}, `"a b" is not a name of a header field`},
		{"nginx", Options{PlanBy: "a b", PlanHeader: "X-Plan"}, `"a b" is not a name for --plan-header`},
		{"nginx", Options{PlanBy: "plan", PlanHeader: "X-Plan", Header: "x-plan"}, "cannot be both the key and the plan"},
		{"nginx", Options{PlanBy: "plan", PlanHeader: "Host"}, "the header field Host cannot be the key or the plan"},
		{"nginx", Options{Weir: "unix:"}, "is not a socket"},
		{"nginx", Options{Weir: "unix:/a;b"}, "is not a socket"},
		{"nginx", Options{Weir: ":7070"}, `--weir ":7070" is not an address; write 127.0.0.1:7070`},
		{"nginx", Options{Weir: "http://127.0.0.1:7070"},
			`--weir "http://127.0.0.1:7070" is not an address; write 127.0.0.1:7070, without http://`},
		{"nginx", Options{App: "http://localhost:3000/app"},
			`--app "http://localhost:3000/app" is not an address; write localhost:3000, without http://`},
		{"nginx", Options{App: "HTTP://app"}, `write app:80, without HTTP://`},
		{"nginx", Options{App: "http://[::1]"}, `write [::1]:80, without http://`},
		{"nginx", Options{App: "https://app:8443"}, `write app:8443, without https://`},
		{"nginx", Options{App: "https://app"}, `"https://app" is not an address; write host:port`},
		{"nginx", Options{App: "app:3000/"}, `"app:3000/" is not an address; write app:3000`},
		{"nginx", Options{App: "3000"}, `write 127.0.0.1:3000`},
		{"nginx", Options{App: "unix:/run/app.sock"}, `"unix:/run/app.sock" is not an address; write host:port`},
		{"nginx", Options{App: "http://a;b:1"}, `"http://a;b:1" is not an address; write host:port`},
		{"nginx", Options{Listen: "8080"}, `--listen "8080" is not an address; write 0.0.0.0:8080`},
		{"nginx", Options{Listen: ":8080"}, `write 0.0.0.0:8080`},
		{"nginx", Options{Listen: "99999"}, `--listen "99999" is not an address; write host:port`},
		{"nginx", Options{App: "app"}, `"app" is not an address`},
		{"nginx", Options{App: "a;b:1"}, `"a;b:1" is not an address`},
		{"nginx", Options{App: "127.0.0.1:99999"}, `"127.0.0.1:99999" is not an address; write host:port`},
		{"envoy", Options{Weir: "127.0.0.1:-1"}, `"127.0.0.1:-1" is not an address`},
		{"nginx", Options{Listen: "80"}, `"80" is not an address`},
		{"nginx", Options{Dir: "etc"}, `"etc" is not a directory`},
		{"nginx", Options{Timeout: "1h"}, `"1h" is not a timeout`},
		{"nginx", Options{Timeout: "0.5s"}, `"0.5s" is not a timeout`},
		{"nginx", Options{Timeout: "1ms"}, `"1ms" is not a timeout`},
		{"traefik", Options{Allow: true}, "--when-down at deny, or choose another proxy"},
		{"traefik", Options{Weir: "unix:/run/weir.sock"}, "write host:port"},
		{"envoy", Options{Secret: true}, "the secret is for gates only"},
	} {
		if _, err := Render(c.name, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want an error with %s", c.name, c.options, err, c.want)
		}
	}
}

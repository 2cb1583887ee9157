package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	flagNamed    = regexp.MustCompile("`--([a-z][a-z-]*)")
	flagDeclared = regexp.MustCompile(`f\.\w+Var\(&[\w.]+, "([a-z-]+)"`)
	routeServed  = regexp.MustCompile(`(?m)^\t\{"(/[a-z0-9/{}.]+)", `)
	metricNamed  = regexp.MustCompile("`(weir_[a-z_]+)")
)

// TestServiceManual: docs/service.md names flags and metrics that there are, every
// flag about listeners and every path.
func TestServiceManual(t *testing.T) {
	page := read(t, "docs/service.md")
	program := sources(t, "cmd/weir/*.go")
	for _, m := range flagNamed.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(program, `"`+m[1]+`"`) {
			t.Errorf("service.md names --%s, which no verb of weir has", m[1])
		}
	}
	declared := flagDeclared.FindAllStringSubmatch(read(t, "cmd/weir/listeners.go"), -1)
	if len(declared) < 10 {
		t.Fatalf("found %d flags in cmd/weir/listeners.go", len(declared))
	}
	for _, m := range declared {
		if !strings.Contains(page, "--"+m[1]) {
			t.Errorf("service.md does not describe --%s", m[1])
		}
	}
	routes := routeServed.FindAllStringSubmatch(read(t, "internal/server/httpapi/route.go"), -1)
	if len(routes) < 8 {
		t.Fatalf("found %d routes in internal/server/httpapi/route.go", len(routes))
	}
	for _, m := range routes {
		if !strings.Contains(page, m[1]+"`") {
			t.Errorf("service.md does not list %s", m[1])
		}
	}
	metrics := read(t, "docs/metrics.md")
	for _, m := range metricNamed.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(metrics, "`"+m[1]+"`") {
			t.Errorf("service.md names %s, which metrics.md does not", m[1])
		}
	}
}

// sources returns the text of all files that match, tests excepted.
func sources(t *testing.T, pattern string) string {
	t.Helper()
	var all strings.Builder
	for _, path := range glob(t, pattern) {
		if !strings.HasSuffix(filepath.Base(path), "_test.go") {
			all.WriteString(read(t, path))
		}
	}
	return all.String()
}

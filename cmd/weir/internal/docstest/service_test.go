package docs_test

import (
	"regexp"
	"strings"
	"testing"
)

var (
	flagDeclared = regexp.MustCompile(`f\.\w+Var\(&[\w.]+, "([a-z-]+)"`)
	routeServed  = regexp.MustCompile(`(?m)^\t\{"(/[a-z0-9/{}.]+)", `)
)

// TestServiceManual: docs/service.md has every flag about listeners and every path.
func TestServiceManual(t *testing.T) {
	page := read(t, "docs/service.md")
	declared := flagDeclared.FindAllStringSubmatch(read(t, "cmd/weir/listeners.go"), -1)
	if len(declared) < 10 {
		t.Fatalf("found %d flags in cmd/weir/listeners.go", len(declared))
	}
	for _, m := range declared {
		if !strings.Contains(page, "--"+m[1]) {
			t.Errorf("service.md does not describe --%s", m[1])
		}
	}
	routes := routeServed.FindAllStringSubmatch(read(t, "cmd/weir/internal/server/httpapi/route.go"), -1)
	if len(routes) < 8 {
		t.Fatalf("found %d routes in cmd/weir/internal/server/httpapi/route.go", len(routes))
	}
	for _, m := range routes {
		if !strings.Contains(page, m[1]+"`") {
			t.Errorf("service.md does not list %s", m[1])
		}
	}
}

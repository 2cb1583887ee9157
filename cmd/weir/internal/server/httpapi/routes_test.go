package httpapi

import "testing"

// TestRolesOfPaths: an unknown path, and a route without a role, is for operators.
func TestRolesOfPaths(t *testing.T) {
	for path, want := range map[string]role{
		"/v1/keys/search": operators, "/metrics": operators, "/v1/top": operators, "/v1/later": operators, "/gate/search": gates, "/gate/": gates,
		"/v1/check": decisions, "/livez": probes,
	} {
		if got := routeOf(path).role; got != want {
			t.Errorf("%s has the role %d, want %d", path, got, want)
		}
	}
}

package redistest

import (
	"strings"
	"testing"
)

// TestVersionsAreTheirNames: a server of each version starts, and reports the kind and version
// of its name.
func TestVersionsAreTheirNames(t *testing.T) {
	OnEachVersion(t, func(t *testing.T, v Version) {
		s := v.Start(t)
		kind, version, _ := strings.Cut(v.String(), "-")
		if got := s.Info(t, kind+"_version"); !strings.HasPrefix(got, version+".") {
			t.Errorf("it has version %s", got)
		}
		if isValkey := s.info("valkey_version") != ""; isValkey != (kind == "valkey") {
			t.Errorf("valkey_version is %q", s.info("valkey_version"))
		}
		if again := v.Shared(t); again != v.Shared(t) {
			t.Error("two calls of Shared gave two servers")
		}
	})
}

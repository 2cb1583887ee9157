package redistest

import (
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// Version starts servers of one version.
type Version struct{ server needs.Server }

// OnEachVersion runs a test that depends on the server's version, as texts of errors do, in a
// subtest for each of [needs.Servers]. All other tests run on the version of this machine.
func OnEachVersion(t *testing.T, test func(t *testing.T, v Version)) {
	for _, s := range needs.Servers {
		t.Run(s.String(), func(t *testing.T) { test(t, Version{s}) })
	}
}

// String returns the name, such as valkey-8.1.
func (v Version) String() string { return v.server.String() }

// Start is the function Start.
func (v Version) Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, v.server.Path(t), args)
}

// Shared is the function Shared. There is one server for each version.
func (v Version) Shared(t testing.TB) *Server {
	t.Helper()
	return sharedServer(t, v.server.Path(t))
}

// StartCluster is the function StartCluster.
func (v Version) StartCluster(t testing.TB) *Cluster {
	t.Helper()
	return startCluster(t, v.server.Path(t))
}

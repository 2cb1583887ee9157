package store

import (
	"context"
	"errors"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// TestIdentity: processes on one store share its identity; another server, another
// database and a server that lost its data have other ones.
func TestIdentity(t *testing.T) {
	server, other := redistest.Start(t), redistest.Start(t)
	of := func(name string) string {
		t.Helper()
		id, err := mustOpen(t, name).Identity(context.Background())
		if err != nil || len(id) < 20 {
			t.Fatalf("%s: %q, %v", name, id, err)
		}
		return id
	}
	first := of("redis://" + server.Addr)
	if again := of("redis://:@" + server.Addr + "/0"); again != first {
		t.Errorf("one server: %q and %q", first, again)
	}
	seen := map[string]bool{first: true, of("redis://" + other.Addr): true, of("redis://" + server.Addr + "/1"): true}
	server.Must(t, "FLUSHALL")
	if seen[of("redis://"+server.Addr)] = true; len(seen) != 4 {
		t.Errorf("identities %v, want 4 of them", seen)
	}
	away := mustOpen(t, "redis://"+other.Addr)
	other.Stop()
	if id, err := away.Identity(context.Background()); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("without the server: %q, %v; want ErrUnavailable", id, err)
	}
}

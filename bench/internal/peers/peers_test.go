package peers

import (
	"testing"
	"time"
)

// TestPeersLimit: with every adapter a new key gets its limit and no more, and another key
// is not affected.
func TestPeersLimit(t *testing.T) {
	const limit = 3
	for _, p := range append(Timed(), Floor(), ShardedFloor()) {
		t.Run(p.Name, func(t *testing.T) {
			l := p.New(limit, time.Hour)
			for _, key := range []string{"a", "b"} {
				for ask := 1; ask <= limit+2; ask++ {
					if got, want := l.Allow(key), ask <= limit; got != want {
						t.Errorf("key %s, attempt %d of limit %d per hour: Allow = %v, want %v", key, ask, limit, got, want)
					}
				}
			}
		})
	}
}

func TestPeersHaveDistinctNames(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range append(All(), Loop(), Floor(), ShardedFloor()) {
		if seen[p.Name] {
			t.Errorf("two contestants are called %q", p.Name)
		}
		seen[p.Name] = true
		got, err := Named(p.Name)
		if err != nil || got.Name != p.Name {
			t.Errorf("Named(%q) = %q, %v", p.Name, got.Name, err)
		}
	}
	if _, err := Named("no such peer"); err == nil {
		t.Error("Named of an unknown name gave no error")
	}
}

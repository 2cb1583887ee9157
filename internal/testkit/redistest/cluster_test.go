package redistest

import (
	"fmt"
	"strings"
	"testing"
)

// TestClusterMovesSlotsAndFailsOver runs all operations on one Cluster, because creating
// one takes seconds.
func TestClusterMovesSlotsAndFailsOver(t *testing.T) {
	t.Parallel()
	c := StartCluster(t)
	const key = "{tag}a"
	slot := c.Slot(t, key)
	owner := c.Primary(t, slot)
	owner.Must(t, "SET", key, "1")
	other := c.Primaries(t)[0]
	if other == owner {
		other = c.Primaries(t)[1]
	}
	if _, err := other.Do("GET", key); err == nil || err.Error() != fmt.Sprintf("MOVED %d %s", slot, owner.Addr) {
		t.Errorf("at another node: got %v, want MOVED to %s", err, owner.Addr)
	}

	owner.Must(t, "SET", "{tag}b", "2")
	pauses := 0
	c.MoveSlot(t, slot, other, func() {
		pauses++
		if _, err := owner.Do("MGET", "{tag}a", "{tag}b"); err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") && pauses == 1 {
			t.Errorf("between two keys of the slot: got %v, want TRYAGAIN", err)
		}
	})
	if pauses != 2 {
		t.Errorf("%d pauses between keys, want 2", pauses)
	}
	if got := other.Must(t, "GET", key); got != "1" {
		t.Errorf("after the move: got %q, want 1", got)
	}
	if got := c.Primary(t, slot); got != other {
		t.Errorf("after the move the slot is at %s, want %s", got.Addr, other.Addr)
	}

	replica := c.Replica(t, other)
	c.Failover(t, replica)
	if got := replica.Must(t, "GET", key); got != "1" {
		t.Errorf("after the failover: got %q, want 1", got)
	}
	c.Settle(t)

	replica.Kill()
	c.AwaitPromoted(t, other)
	if got := other.Must(t, "GET", key); got != "1" {
		t.Errorf("after the kill: got %q, want 1", got)
	}
	c.Settle(t)
	replica.Restart(t)
	c.Settle(t)
	if got := c.Replica(t, other); got != replica {
		t.Errorf("the restarted node should follow: %s does", got.Addr)
	}
}

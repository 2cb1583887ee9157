package redistest

import (
	"strconv"
	"strings"
	"testing"
)

// MoveSlot moves a slot with all its keys to another primary, as resharding does. While it
// runs, the keys are spread over both. pause is called between two keys; it may be nil.
func (c *Cluster) MoveSlot(t testing.TB, slot int, to *Server, pause func()) {
	t.Helper()
	from := c.Primary(t, slot)
	if from == to {
		t.Fatalf("slot %d is at %s already", slot, to.Addr)
	}
	number := strconv.Itoa(slot)
	fromID, toID := from.Must(t, "CLUSTER", "MYID"), to.Must(t, "CLUSTER", "MYID")
	to.Must(t, "CLUSTER", "SETSLOT", number, "IMPORTING", fromID)
	from.Must(t, "CLUSTER", "SETSLOT", number, "MIGRATING", toID)
	host, port := to.hostPort()
	for {
		key := from.Must(t, "CLUSTER", "GETKEYSINSLOT", number, "1")
		if key == "" {
			break
		}
		from.Must(t, "MIGRATE", host, port, key, "0", "5000")
		if pause != nil {
			pause()
		}
	}
	// The new owner first, or for an instant the slot would have none.
	to.Must(t, "CLUSTER", "SETSLOT", number, "NODE", toID)
	from.Must(t, "CLUSTER", "SETSLOT", number, "NODE", toID)
	for _, s := range c.Primaries(t) {
		if _, err := s.Do("CLUSTER", "SETSLOT", number, "NODE", toID); err != nil && !strings.Contains(err.Error(), "replica") {
			t.Fatal(err)
		}
	}
}

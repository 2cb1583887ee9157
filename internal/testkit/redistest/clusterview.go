package redistest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// nodeLine is a line of CLUSTER NODES.
type nodeLine struct {
	id, addr string
	self     bool // the node that replied
	primary  bool
	failed   bool
	follows  string   // id of the primary, "-" for none
	slots    [][2]int // first and last
}

// view returns the running nodes, each in its own view: its view of other nodes may be out
// of date.
func (c *Cluster) view(t testing.TB) []nodeLine {
	t.Helper()
	var lines []nodeLine
	for _, s := range c.Nodes {
		if s.ended() {
			continue
		}
		for _, n := range readNodes(s.Must(t, "CLUSTER", "NODES")) {
			if n.self {
				n.addr = s.Addr
				lines = append(lines, n)
			}
		}
	}
	return lines
}

// readNodes parses the reply to CLUSTER NODES.
func readNodes(text string) []nodeLine {
	var lines []nodeLine
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(f[1], "@")
		n := nodeLine{id: f[0], addr: addr, follows: f[3], self: strings.Contains(f[2], "myself"),
			primary: strings.Contains(f[2], "master"), failed: strings.Contains(f[2], "fail")}
		for _, span := range f[8:] {
			var first, last int
			switch count, _ := fmt.Sscanf(span, "%d-%d", &first, &last); count {
			case 1:
				n.slots = append(n.slots, [2]int{first, first})
			case 2:
				n.slots = append(n.slots, [2]int{first, last})
			} // other words are slots that move
		}
		lines = append(lines, n)
	}
	return lines
}

// holds reports whether the node serves the slot.
func (n *nodeLine) holds(slot int) bool {
	return slices.ContainsFunc(n.slots, func(span [2]int) bool { return span[0] <= slot && slot <= span[1] })
}

// at returns the node with the address.
func (c *Cluster) at(addr string) *Server {
	for _, s := range c.Nodes {
		if s.Addr == addr {
			return s
		}
	}
	return nil
}

// Primary returns the node that serves the slot.
func (c *Cluster) Primary(t testing.TB, slot int) *Server {
	t.Helper()
	for _, n := range c.view(t) {
		if n.primary && n.holds(slot) {
			return c.at(n.addr)
		}
	}
	t.Fatalf("no node serves slot %d", slot)
	return nil
}

// Primaries returns the nodes that serve slots.
func (c *Cluster) Primaries(t testing.TB) []*Server {
	t.Helper()
	var found []*Server
	for _, n := range c.view(t) {
		if n.primary && len(n.slots) > 0 {
			found = append(found, c.at(n.addr))
		}
	}
	return found
}

// Replica returns a running replica of the primary.
func (c *Cluster) Replica(t testing.TB, primary *Server) *Server {
	t.Helper()
	id := primary.Must(t, "CLUSTER", "MYID")
	for _, n := range c.view(t) {
		if n.follows == id {
			return c.at(n.addr)
		}
	}
	t.Fatalf("no replica follows %s", primary.Addr)
	return nil
}

// Failover is a planned failover to the replica: the old primary holds its clients until
// the replica has all data. It returns when the replica serves.
func (c *Cluster) Failover(t testing.TB, replica *Server) {
	t.Helper()
	var asked time.Time
	err := poll(func() error {
		// Redis aborts after five seconds, and other primaries reject further votes for a
		// while.
		if time.Since(asked) > 6*time.Second {
			asked = time.Now()
			if _, err := replica.Do("CLUSTER", "FAILOVER"); err != nil {
				return err
			}
		}
		return replica.promoted()
	})
	if err != nil {
		t.Fatalf("failover to %s: %v", replica.Addr, err)
	}
}

// AwaitPromoted returns when the node has become a primary by itself.
func (c *Cluster) AwaitPromoted(t testing.TB, replica *Server) {
	t.Helper()
	if err := poll(replica.promoted); err != nil {
		t.Fatalf("failover to %s: %v", replica.Addr, err)
	}
}

// promoted returns an error while the node is a replica.
func (s *Server) promoted() error {
	text, err := s.Do("INFO", "replication")
	return errors.Join(err, want(text, "role", "master"))
}

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

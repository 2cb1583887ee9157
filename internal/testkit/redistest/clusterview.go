package redistest

import (
	"errors"
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
	follows  string      // id of the primary, "-" for none
	slots    [][2]string // first and last
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
			if span[0] == '[' {
				continue // a slot that moves
			}
			first, last, found := strings.Cut(span, "-")
			if !found {
				last = first
			}
			n.slots = append(n.slots, [2]string{first, last})
		}
		lines = append(lines, n)
	}
	return lines
}

// holds reports whether the node serves the slot.
func (n *nodeLine) holds(slot int) bool {
	for _, span := range n.slots {
		first, _ := strconv.Atoi(span[0])
		last, _ := strconv.Atoi(span[1])
		if first <= slot && slot <= last {
			return true
		}
	}
	return false
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
	t.Fatalf("nobody serves slot %d", slot)
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
	t.Fatalf("nobody follows %s", primary.Addr)
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
	text, err := s.Do("CLUSTER", "NODES")
	if err != nil {
		return err
	}
	if !strings.Contains(text, "myself,master") {
		return errors.New("it is still a replica")
	}
	return nil
}

package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// Cluster is a Redis Cluster of three primaries, which share the slots evenly,
// and a replica for each.
type Cluster struct {
	Nodes []*Server // the primaries at the start, then their replicas in the same order
}

const (
	primaries = 3
	slots     = 16384

	// nodeTimeout is the time in milliseconds after which silent nodes count as dead.
	nodeTimeout = "1500"
)

// StartCluster returns a Cluster that serves all slots, with replicas in sync. It
// takes about three seconds: nodes reject calls for two seconds after their start.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	return startCluster(t, needs.Redis(t))
}

func startCluster(t testing.TB, program string) *Cluster {
	t.Helper()
	c := &Cluster{Nodes: make([]*Server, 2*primaries)}
	var all sync.WaitGroup
	errs := make([]error, len(c.Nodes))
	for i := range c.Nodes {
		dir := t.TempDir()
		all.Go(func() {
			c.Nodes[i], errs[i] = launch(program, dir, []string{"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf",
				"--cluster-node-timeout", nodeTimeout})
			if errs[i] == nil {
				t.Cleanup(c.Nodes[i].discard)
			}
		})
	}
	all.Wait()
	err := errors.Join(errs...)
	if err == nil {
		err = c.form()
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// form makes the nodes one Cluster.
func (c *Cluster) form() error {
	for i, s := range c.Nodes {
		// Each node gets an epoch of its own, or two nodes might claim the same.
		if _, err := s.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < primaries {
			first, last := i*slots/primaries, (i+1)*slots/primaries-1
			if _, err := s.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(first), strconv.Itoa(last)); err != nil {
				return err
			}
		}
		host, port := s.hostPort()
		if _, err := c.Nodes[0].Do("CLUSTER", "MEET", host, port); err != nil {
			return err
		}
	}
	for i, replica := range c.Nodes[primaries:] {
		id, err := c.Nodes[i].Do("CLUSTER", "MYID")
		if err != nil {
			return err
		}
		// The replica must first learn the address of its primary.
		if err := poll(func() error { _, err := replica.Do("CLUSTER", "REPLICATE", id); return err }); err != nil {
			return err
		}
	}
	return c.settle()
}

// settle returns when every running node serves all slots and has all other nodes in its
// view, and every slot has one primary with a replica in sync.
func (c *Cluster) settle() error {
	return poll(func() error {
		leading := 0
		for _, s := range c.Nodes {
			if s.ended() {
				continue
			}
			leads, err := c.settled(s)
			if err != nil {
				return fmt.Errorf("redistest: cluster node %s: %w", s.Addr, err)
			}
			if leads {
				leading++
			}
		}
		// A primary that was replaced may not have noticed yet.
		if leading != primaries {
			return fmt.Errorf("redistest: %d cluster nodes take themselves for primaries, should be %d", leading, primaries)
		}
		return nil
	})
}

// settled reports whether a ready node is a primary in its own view.
func (c *Cluster) settled(s *Server) (leads bool, err error) {
	info, err := s.Do("CLUSTER", "INFO")
	if err != nil {
		return false, err
	}
	nodes, err := s.Do("CLUSTER", "NODES")
	if err != nil {
		return false, err
	}
	err = errors.Join(
		want(info, "cluster_state", "ok"),
		want(info, "cluster_slots_ok", strconv.Itoa(slots)),
		want(info, "cluster_known_nodes", strconv.Itoa(len(c.Nodes))))
	for _, n := range readNodes(nodes) {
		if other := c.at(n.addr); n.failed && other != nil && !other.ended() {
			err = errors.Join(err, fmt.Errorf("it takes %s for dead", n.addr))
		}
	}
	if err != nil {
		return false, err
	}
	info, err = s.Do("INFO", "replication")
	if err != nil || fieldOf(info, "role") == "master" {
		return true, err
	}
	return false, want(info, "master_link_status", "up")
}

// Settle returns when every running node serves all slots and replicas are in sync, as
// after StartCluster. Slots of a dead primary without a successor never settle.
func (c *Cluster) Settle(t testing.TB) {
	t.Helper()
	if err := c.settle(); err != nil {
		t.Fatal(err)
	}
}

// Addrs returns the addresses of all nodes.
func (c *Cluster) Addrs() []string {
	var addrs []string
	for _, s := range c.Nodes {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// Slot returns the slot of a key.
func (c *Cluster) Slot(t testing.TB, key string) int {
	t.Helper()
	slot, err := strconv.Atoi(c.running(t).Must(t, "CLUSTER", "KEYSLOT", key))
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

// running returns a running node.
func (c *Cluster) running(t testing.TB) *Server {
	t.Helper()
	for _, s := range c.Nodes {
		if !s.ended() {
			return s
		}
	}
	t.Fatal("no node of the Cluster runs")
	return nil
}

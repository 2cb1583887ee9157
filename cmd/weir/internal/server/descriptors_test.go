package server

import (
	"strings"
	"testing"
)

// With any number of descriptors the connections of all listeners together leave some for
// the store and for files, and every listener gets at least one.
func TestEveryListenerGetsDescriptors(t *testing.T) {
	for _, c := range []struct {
		descriptors, listeners, most int
		admin                        bool
		want                         connections
	}{
		{0, 3, 10_000, true, connections{10_000, 100, 16, 0}},
		{0, 1, 10_000, false, connections{10_000, 0, 16, 0}},
		{1 << 20, 3, 10_000, true, connections{10_000, 100, 16, 0}},
		{20_000, 1, 10_000, true, connections{10_000, 100, 16, 0}},
		{20_000, 3, 10_000, true, connections{6590, 100, 16, 20_000}},
		{1024, 3, 10_000, true, connections{265, 100, 16, 1024}},
		{1024, 1, 50, true, connections{50, 100, 16, 0}},
		{1024, 1, 10_000, false, connections{944, 0, 16, 1024}}, // nothing is kept for absent listeners
		{256, 2, 10_000, false, connections{87, 0, 9, 256}},
		{64, 3, 10_000, true, connections{9, 8, 1, 64}},
		{64, 1, 10_000, true, connections{30, 8, 1, 64}},
	} {
		got := splitConnections(c.descriptors, c.listeners, c.most, c.admin)
		if got != c.want {
			t.Errorf("%d descriptors for %d listeners of %d, of operators %t: %+v, want %+v", c.descriptors, c.listeners, c.most, c.admin, got, c.want)
		}
	}
	for d := 16; d < 30_000; d++ {
		p := splitConnections(d, 3, 10_000, true)
		if left := d - 3*p.each - p.admin - 4*p.spare; p.each < 1 || p.admin < 1 || d >= 64 && left < 24 {
			t.Fatalf("%d descriptors: %+v leaves %d", d, p, left)
		}
	}
	few, many := splitConnections(64, 1, 10_000, true), splitConnections(20_000, 3, 10_000, true)
	if w := few.warning(); !strings.Contains(w, "64 file descriptors allow 30 connections") || many.warning() != "" {
		t.Errorf("64: %q; 20,000: %q, want a warning for the first alone", w, many.warning())
	}
}

package server

import (
	"strings"
	"testing"
)

// However few descriptors there are, connections to all listeners together leave some
// for the store and for files, and no listener is without one.
func TestPortions(t *testing.T) {
	for _, c := range []struct {
		descriptors, listeners, most int
		admin, redis                 bool
		want                         portions
	}{
		{0, 3, 10_000, true, true, portions{10_000, 100, 16, 0}},
		{0, 1, 10_000, false, false, portions{10_000, 0, 0, 0}},
		{1 << 20, 3, 10_000, true, true, portions{10_000, 100, 16, 0}},
		{20_000, 1, 10_000, true, false, portions{10_000, 100, 0, 0}},
		{20_000, 3, 10_000, true, true, portions{6606, 100, 16, 20_000}},
		{1024, 3, 10_000, true, true, portions{281, 100, 16, 1024}},
		{1024, 1, 50, true, false, portions{50, 100, 0, 0}},
		{1024, 1, 10_000, false, false, portions{960, 0, 0, 1024}}, // nothing is kept for who is not there
		{256, 2, 10_000, false, true, portions{88, 0, 16, 256}},
		{64, 3, 10_000, true, true, portions{9, 8, 3, 64}},
		{64, 1, 10_000, true, false, portions{32, 8, 0, 64}},
	} {
		got := portion(c.descriptors, c.listeners, c.most, c.admin, c.redis)
		if got != c.want {
			t.Errorf("%d descriptors for %d listeners of %d, of operators %t, of Redis clients %t: %+v, want %+v", c.descriptors, c.listeners, c.most, c.admin, c.redis, got, c.want)
		}
	}
	for d := 16; d < 30_000; d++ {
		p := portion(d, 3, 10_000, true, true)
		if left := d - 3*p.each - p.admin - p.told; p.each < 1 || p.admin < 1 || d >= 64 && left < 24 {
			t.Fatalf("%d descriptors: %+v leaves %d", d, p, left)
		}
	}
	few, many := portion(64, 1, 10_000, true, false), portion(20_000, 3, 10_000, true, true)
	if w := few.warning(); !strings.Contains(w, "64 file descriptors allow 32 connections") || many.warning() != "" {
		t.Errorf("64: %q; 20,000: %q, want a warning for the first alone", w, many.warning())
	}
}

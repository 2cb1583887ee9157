package main

import (
	"testing"
	"time"
)

func TestLogThrottle(t *testing.T) {
	s := logThrottle{every: 10 * time.Second}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		after      time.Duration
		suppressed int
		ok         bool
	}{{0, 0, true}, {time.Second, 0, false}, {9 * time.Second, 0, false}, {10 * time.Second, 2, true}, {11 * time.Second, 0, false}, {time.Hour, 1, true}, {2 * time.Hour, 0, true}} {
		if suppressed, ok := s.allow(noon.Add(c.after)); suppressed != c.suppressed || ok != c.ok {
			t.Errorf("after %v: %d, %v; want %d, %v", c.after, suppressed, ok, c.suppressed, c.ok)
		}
	}
}

package main

import (
	"testing"
	"time"
)

func TestWrongDecisions(t *testing.T) {
	limits := []limit{{2, time.Second}, {3, time.Minute}}
	at := func(ms int64, v verdict) answered {
		return answered{ms * 1e6, ms*1e6 + 1e5, v}
	}
	for _, tc := range []struct {
		name         string
		calls        []answered
		excess, lost int
	}{
		{"nothing", nil, 0, 0},
		{"two of two, then denied", []answered{at(0, granted), at(1, granted), at(2, denied)}, 0, 0},
		{"three in a second", []answered{at(0, granted), at(1, granted), at(999, granted)}, 1, 0},
		{"three, a window apart", []answered{at(0, granted), at(1, granted), at(1001, granted)}, 0, 0},
		{"four in a minute", []answered{at(0, granted), at(2000, granted), at(4000, granted), at(6000, granted)}, 1, 0},
		{"denied with room", []answered{at(0, granted), at(500, denied)}, 0, 1},
		{"denied by the minute alone", []answered{at(0, granted), at(2000, granted), at(4000, granted), at(6000, denied)}, 0, 0},
		{"denied after the window", []answered{at(0, granted), at(1, granted), at(1100, denied)}, 0, 1},
		{"an unknown call may have been granted", []answered{at(0, granted), at(1, unknown), at(2, denied)}, 0, 0},
		{"an unknown call is no grant", []answered{at(0, granted), at(1, granted), at(2, unknown)}, 0, 0},
	} {
		if excess, lost := wrongDecisions(tc.calls, limits); excess != tc.excess || lost != tc.lost {
			t.Errorf("%s: %d too many and %d wrong denials, want %d and %d", tc.name, excess, lost, tc.excess, tc.lost)
		}
	}
}

package gcra

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// cell answers as redis-cell does, written down from its arithmetic: floating point for
// period/count and for what remains, seconds with what is below one taken as one more.
type cell struct {
	arrival int64 // nanoseconds; 0 = the key is not there
}

func (c *cell) throttle(now, burst, count int64, period time.Duration, quantity int64) (reply [5]int64) {
	interval := int64(float64(period) / float64(count))
	tolerance := interval * (burst + 1)
	arrival := c.arrival
	if arrival < now { // it has expired
		arrival = now
	}
	next, ttl, retry := arrival+interval*quantity, int64(0), int64(-1e9)
	limited := now-(next-tolerance) < 0
	if limited {
		ttl = arrival - now
		if interval*quantity <= tolerance {
			retry = next - tolerance - now
		}
	} else {
		ttl = next - now
		c.arrival = next
	}
	if left := tolerance - ttl; left > -interval {
		reply[2] = int64(float64(left/1000) / float64(interval/1000))
	}
	if limited {
		reply[0] = 1
	}
	reply[1], reply[3], reply[4] = burst+1, up(retry), up(ttl)
	return reply
}

func up(ns int64) int64 {
	seconds := ns / 1e9
	if ns%1e9/1e6 > 0 {
		seconds++
	}
	return seconds
}

// TestAnswersAsRedisCell: the five numbers are the same for random traces, where
// period/count is whole milliseconds: docs/resp.md says what differs elsewhere.
func TestAnswersAsRedisCell(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	limited, granted := 0, 0
	for range 300 {
		table, peer := NewTable(DefaultBytes), &cell{}
		count := []int64{1, 2, 5, 10, 1000}[r.IntN(5)]
		l := Limit{Burst: r.Int64N(10), Count: count, Period: time.Duration(1+r.Int64N(120)) * time.Second}
		if r.IntN(4) == 0 {
			l.Period, l.Count = time.Duration(1+r.Int64N(100*365*24*3600/20))*time.Second, 1
		}
		now := int64(1e9)
		for step := range 60 {
			now += r.Int64N(int64(l.Period/time.Millisecond)/2+1) * 1e6
			n := r.Int64N(l.Burst + 3)
			a, err := table.throttleAt("k", l, n, now)
			if err != nil {
				t.Fatal(err)
			}
			got := [5]int64{0, a.Limit, a.Remaining, answer.Seconds(a.RetryAfter), answer.Seconds(a.ResetAfter)}
			if a.RetryAfter == weir.Never {
				got[3] = -1
			}
			if a.Limited {
				got[0] = 1
				limited++
			} else {
				granted++
			}
			if want := peer.throttle(now, l.Burst, l.Count, l.Period, n); got != want {
				t.Fatalf("seed %d, step %d: %+v, %d units at %d ms: %v, redis-cell says %v", seed, step, l, n, now/1e6, got, want)
			}
		}
	}
	if limited < 1000 || granted < 1000 {
		t.Errorf("seed %d: %d limited and %d granted; the test does not try both", seed, limited, granted)
	}
}

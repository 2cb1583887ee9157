package topkeys

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// TestFrequentKeysStandOutOfAMillion: keys that are denied often are found among a
// million keys denied once each, in the fixed memory of a sketch. Every key with more than a
// 64th of the denials of its stripe has a counter: here 2,000 to 2,700, as the frequent keys
// happen to be spread.
func TestFrequentKeysStandOutOfAMillion(t *testing.T) {
	const slots, often, once, times = 512, 20, 1_000_000, 3000
	random := rand.New(rand.NewPCG(1, 2))
	s := New(slots, Shown)
	truth, sent := [often]int64{}, 0
	for sent < once {
		if i := random.IntN(once/times + often); i < often {
			truth[i]++
			s.Add(weir.K(fmt.Sprint("often ", i)), noon.UnixMicro())
			continue
		}
		s.Add(weir.K(fmt.Sprint("once ", sent)), noon.UnixMicro())
		sent++
	}
	counters, bytes := 0, 0
	for i := range s.parts {
		counters += len(s.parts[i].now.all)
		for _, c := range s.parts[i].now.all {
			bytes += cap(c.text)
		}
	}
	if counters > slots || bytes > slots*64 {
		t.Errorf("%d counters with %d bytes of keys, want %d at most with 64 each", counters, bytes, slots)
	}
	report := s.Top(often, noon.Add(time.Minute))
	for i, e := range report.Top {
		var n int
		if _, err := fmt.Sscanf(e.Values[0], "often %d", &n); err != nil {
			t.Errorf("place %d: %s, %d ± %d, want one of those that are denied often", i, e.Values[0], e.Denials, e.Error)
		} else if truth[n] > e.Denials || truth[n] < e.Denials-e.Error {
			t.Errorf("%s was denied %d times, the sketch has %d ± %d", e.Values[0], truth[n], e.Denials, e.Error)
		}
	}
}

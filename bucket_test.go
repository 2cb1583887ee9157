package weir

import (
	"math/big"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestBucketDoesNotDrift: on the memory engine, 1,002,000 grants that each wait for the
// announced RetryAfter happen exactly at the instants of the rate (R8, R16).
func TestBucketDoesNotDrift(t *testing.T) {
	grants := int64(race.Fewer(334_000)) // at each of three rates
	const burst = 5
	const epoch = 1_700_000_000_000_000
	for _, c := range []struct {
		most   int64
		window time.Duration
	}{{3, time.Second}, {7, 1_000_001 * time.Microsecond}, {999_983, 24 * time.Hour}} {
		p := perUser(c.most, c.window)
		p.Limits[0].Kind, p.Limits[0].Burst = Bucket, burst
		l := mustNew(t, p)
		at := time.UnixMicro(epoch)
		if d, err := l.At(at).AllowN(ctx, K("42"), burst); err != nil || !d.Allowed {
			t.Fatalf("%d per %v, the burst: got %+v, %v, want it granted", c.most, c.window, d, err)
		}
		for k := int64(1); k <= grants; k++ {
			d, err := l.At(at).Allow(ctx, K("42"))
			if err != nil || d.Allowed {
				t.Fatalf("%d per %v, before grant %d: got %+v, %v, want a denial", c.most, c.window, k, d, err)
			}
			at = at.Add(d.RetryAfter)
			if d, err = l.At(at).Allow(ctx, K("42")); err != nil || !d.Allowed {
				t.Fatalf("%d per %v, grant %d after the announced wait: got %+v, %v", c.most, c.window, k, d, err)
			}
		}
		micros := new(big.Int).Mul(big.NewInt(grants), big.NewInt(c.window.Microseconds()))
		micros.Add(micros, big.NewInt(c.most-1)).Div(micros, big.NewInt(c.most))
		if want := epoch + micros.Int64(); at.UnixMicro() != want {
			t.Errorf("%d per %v: grant %d is at %d, want %d", c.most, c.window, grants, at.UnixMicro(), want)
		}
	}
}

// TestMaxBurstFillsWithin400Days: the largest burst fills in at most 400 days, and one more
// unit does not.
func TestMaxBurstFillsWithin400Days(t *testing.T) {
	for _, c := range []struct {
		most   int64
		window time.Duration
		want   int64
	}{{10, MaxWindow, 10}, {1_000_003, MaxWindow, 1_000_003}, {1, MaxWindow, 1}, {3, time.Hour * 24, 1200}, {7, 11 * time.Hour * 24, 254}} {
		l := Limit{Name: "l", Max: c.most, Window: c.window, Kind: Bucket, Burst: c.want}
		if got := l.MaxBurst(); got != c.want {
			t.Errorf("%d per %v: got a largest burst of %d, want %d", c.most, c.window, got, c.want)
		}
		if _, err := (Policy{Name: "p", Limits: []Limit{l}}).Compile(); err != nil {
			t.Errorf("%d per %v, burst %d: %v", c.most, c.window, c.want, err)
		}
	}
}

package resp

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/internal/testkit/redistest/enginetest"
)

// cell answers as redis-cell does, written down from its arithmetic: floating point for
// period/count and for the remaining units, seconds with what is below one taken as one
// more.
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

// throttled sends CL.THROTTLE and returns the five numbers of the answer.
func throttled(t testing.TB, s *Server, key string, numbers ...int64) (reply [5]int64) {
	t.Helper()
	ask := []string{"CL.THROTTLE", key}
	for _, n := range numbers {
		ask = append(ask, fmt.Sprint(n))
	}
	got := say(t, s, array(ask...))
	words := strings.Fields(got)
	if len(words) != 6 || words[0] != "*5" {
		t.Fatalf("%q: %q, want five numbers", ask, got)
	}
	for i := range reply {
		reply[i], _ = strconv.ParseInt(words[1+i][1:], 10, 64)
	}
	return reply
}

// TestAnswersAsRedisCell: the five numbers are the same for random traces, where
// period/count is whole milliseconds: docs/resp.md lists the differences elsewhere.
func TestAnswersAsRedisCell(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	limited, granted := 0, 0
	synctest.Test(t, func(t *testing.T) {
		for range 300 {
			s, peer := newTestServer(t), &cell{}
			count := []int64{1, 2, 5, 10, 1000}[r.IntN(5)]
			burst, period := r.Int64N(10), 1+r.Int64N(120)
			if r.IntN(4) == 0 {
				period, count = 1+r.Int64N(400*24*3600/20), 1
			}
			for step := range 60 {
				time.Sleep(time.Duration(r.Int64N(period*1000/2+1)) * time.Millisecond)
				n := r.Int64N(burst + 3)
				got := throttled(t, s, "k", burst, count, period, n)
				limited, granted = limited+int(got[0]), granted+1-int(got[0])
				if want := peer.throttle(time.Now().UnixNano(), burst, count, time.Duration(period)*time.Second, n); got != want {
					t.Fatalf("seed %d, step %d: CL.THROTTLE k %d %d %d %d at %v: %v, redis-cell answers %v", seed, step, burst, count, period, n, time.Now(), got, want)
				}
			}
		}
	})
	if limited < 1000 || granted < 1000 {
		t.Errorf("seed %d: %d limited and %d granted; the test does not try both", seed, limited, granted)
	}
}

// attempted is one line of a trace: when, how many, and the answer.
type attempted struct {
	at, n     int64 // milliseconds; units
	limited   bool
	remaining int64
	reset     time.Duration
	retry     time.Duration
}

// trace is five at once and one a second, in the steps in which the tests of
// redis-cell and of the Go library it was modelled on walk through the algorithm.
var trace = []attempted{
	{0, 6, true, 5, 0, weir.Never},
	{0, 1, false, 4, 1 * time.Second, 0},
	{0, 1, false, 3, 2 * time.Second, 0},
	{0, 1, false, 2, 3 * time.Second, 0},
	{0, 1, false, 1, 4 * time.Second, 0},
	{0, 1, false, 0, 5 * time.Second, 1 * time.Second},
	{0, 1, true, 0, 5 * time.Second, 1 * time.Second},
	{3000, 1, false, 2, 3000 * time.Millisecond, 0},
	{3100, 1, false, 1, 3900 * time.Millisecond, 0},
	{4000, 1, false, 1, 4000 * time.Millisecond, 0},
	{8000, 1, false, 4, 1000 * time.Millisecond, 0},
	{9500, 1, false, 4, 1000 * time.Millisecond, 0},
	{9500, 0, false, 4, 1 * time.Second, 0},
	{9500, 2, false, 2, 3 * time.Second, 0},
	{9500, 5, true, 2, 3 * time.Second, 3 * time.Second},
	{9500, 6, true, 2, 3 * time.Second, weir.Never},
}

// limiterOf returns the limiter of a bucket, or fails the test.
func limiterOf(t testing.TB, s *Server, b bucket) *weir.Limiter {
	t.Helper()
	l, err := s.buckets.limiter(b)
	if err != nil {
		t.Fatalf("%+v: %v", b, err)
	}
	return l
}

// TestThrottleTrace: the answers are exact before they are rounded to seconds.
func TestThrottleTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := limiterOf(t, newTestServer(t), bucket{4, 1, 1}), time.Now()
		for i, want := range trace {
			time.Sleep(time.Until(began.Add(time.Duration(want.at) * time.Millisecond)))
			d, err := l.AllowN(background, weir.K("foo"), want.n)
			if got := (attempted{want.at, want.n, !d.Allowed, d.Remaining, d.ResetAfter, d.RetryAfter}); err != nil || got != want {
				t.Errorf("step %d: %+v, %v; want %+v", i, got, err, want)
			}
		}
	})
}

// randomBucket returns a bucket that an engine can hold.
func randomBucket(r *rand.Rand) bucket {
	return bucket{burst: r.Int64N(20), count: 1 + r.Int64N(5000), period: 1 + r.Int64N(3600)}
}

// TestThrottleWaitIsExact: after RetryAfter the attempt passes, a microsecond sooner it
// does not.
func TestThrottleWaitIsExact(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	s := newTestServer(t)
	for i := range 2000 {
		b := randomBucket(r)
		l, key, now := limiterOf(t, s, b), weir.K(fmt.Sprint(i)), time.UnixMicro(r.Int64N(1e15))
		if _, err := l.At(now).Record(background, key, r.Int64N(b.burst+2)); err != nil {
			t.Fatal(err)
		}
		n := 1 + r.Int64N(b.burst+1)
		d, err := l.At(now).AllowN(background, key, n)
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			continue
		}
		if early, err := l.At(now.Add(d.RetryAfter-time.Microsecond)).AllowN(background, key, n); err != nil || early.Allowed {
			t.Errorf("seed %d: %+v, %d units: %v, %v, a microsecond before the wait of %v is over", seed, b, n, early, err, d.RetryAfter)
		}
		if late, err := l.At(now.Add(d.RetryAfter)).AllowN(background, key, n); err != nil || !late.Allowed {
			t.Errorf("seed %d: %+v, %d units: %v, %v, after the wait of %v", seed, b, n, late, err, d.RetryAfter)
		}
	}
}

// TestThrottleNeverMoreThanTheRate: a burst, and after it no more than count in a period,
// also where period/count is no whole number of microseconds.
func TestThrottleNeverMoreThanTheRate(t *testing.T) {
	s := newTestServer(t)
	for _, b := range []bucket{{0, 3, 1}, {2, 7, 1}, {9, 999_999_937, 1}, {0, 1e9 + 7, 1}, {5, 11, 13}} {
		l, began, granted := limiterOf(t, s, b), time.UnixMicro(0), int64(0)
		now := began
		for range 10_000 {
			d, err := l.At(now).AllowN(background, weir.K(fmt.Sprint(b)), 1)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				now = now.Add(d.RetryAfter)
				continue
			}
			granted++
			if most := float64(b.burst+1) + now.Sub(began).Seconds()*float64(b.count)/float64(b.period); float64(granted) > most+1e-6 {
				t.Fatalf("%+v: %d units within %v, at most %.2f are right", b, granted, now.Sub(began), most)
			}
		}
	}
}

// TestThrottleRanges: the largest numbers are decided, and larger ones are errors with the
// reason and the largest.
func TestThrottleRanges(t *testing.T) {
	const days400 = 400 * 24 * 3600
	for _, c := range []struct {
		b    bucket
		want string // "" = no error
	}{
		{bucket{0, 1, 1}, ""},
		{bucket{0, weir.MaxUnits, 1}, ""},
		{bucket{weir.MaxUnits - 1, 1, 1}, "use at most 34559999"},
		{bucket{34559999, 1, 1}, ""},
		{bucket{34560000, 1, 1}, "a max_burst of 34560000 at 1 per 1s would take more than 400 days"},
		{bucket{0, 1, days400}, ""},
		{bucket{0, 1, days400 + 1}, "a period of 34560001s with a count of 1; use at most 34560000s"},
		{bucket{1, 1, days400 / 2}, ""},
		{bucket{1, 1, days400/2 + 1}, "use at most 0"},
		{bucket{4, 12, 2 * days400}, ""}, // as 1 per 5760000s
		{bucket{0, 7, 2*days400 + 1}, "a period of 69120001s with a count of 7; use at most 34560000s, which are 400 days"},
		{bucket{0, 1, longestPeriod}, "a period of 3153600000s with a count of 1"},
		{bucket{99, 1e9, 3600}, ""},
		{bucket{1 << 40, 1, 3600}, "use at most"},
	} {
		got := say(t, newTestServer(t), array("CL.THROTTLE", "k", fmt.Sprint(c.b.burst), fmt.Sprint(c.b.count), fmt.Sprint(c.b.period)))
		switch {
		case c.want == "" && !strings.HasPrefix(got, "*5\r\n:0\r\n"):
			t.Errorf("%+v: %q, want a grant", c.b, got)
		case c.want != "" && (!strings.HasPrefix(got, "-ERR ") || !strings.Contains(got, c.want)):
			t.Errorf("%+v: %q, want an error with %q", c.b, got, c.want)
		}
	}
	if got := throttled(t, newTestServer(t), "k", 1, 1, 1, weir.MaxUnits); got != [5]int64{1, 2, 2, -1, 0} {
		t.Errorf("as many units as there are: %v; want a denial for ever", got)
	}
}

// TestThrottleBucketsShareAKey: another max_burst, count or period applies to the units that
// the key has used (R12). More than the whole limit is never missing.
func TestThrottleBucketsShareAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTestServer(t)
		for i, c := range []struct {
			ask  [4]int64
			want [5]int64
		}{
			{[4]int64{9, 10, 60, 6}, [5]int64{0, 10, 4, -1, 36}},
			{[4]int64{4, 10, 60, 1}, [5]int64{1, 5, 0, 12, 36}},
			{[4]int64{4, 10, 60, 0}, [5]int64{1, 5, 0, 6, 36}},
			{[4]int64{6, 10, 60, 1}, [5]int64{0, 7, 0, -1, 42}},
			{[4]int64{6, 1, 60, 1}, [5]int64{1, 7, 0, 60, 420}},
			{[4]int64{6, 20, 120, 1}, [5]int64{1, 7, 0, 6, 42}},
		} {
			if got := throttled(t, s, "k", c.ask[:]...); got != c.want {
				t.Errorf("step %d, CL.THROTTLE k %v: %v, want %v", i, c.ask, got, c.want)
			}
		}
		for burst := range int64(5000) { // more than are kept
			throttled(t, s, "another", burst, 1, 1, 1)
		}
		if got := throttled(t, s, "another", 5999, 1, 1, 0); got[2] != 1000 {
			t.Errorf("after 5,000 attempts with larger bursts each: %v, want 1,000 left of 6,000", got)
		}
	})
}

// TestThrottleBoundsRates: at the bound of rates, other rates get an error, and known ones
// are decided.
func TestThrottleBoundsRates(t *testing.T) {
	s := newTestServer(t)
	throttled(t, s, "k", 1, 2, 4)
	for i := range int64(maxRates - 1) {
		s.buckets.rates[rate{i, time.Millisecond}] = struct{}{}
	}
	if got := say(t, s, array("CL.THROTTLE", "k", "1", "1", "1")); !strings.HasPrefix(got, "-UNAVAILABLE no decision: this server has decided by 65536 different rates") {
		t.Errorf("one rate too many: %q", got)
	}
	if got := throttled(t, s, "k", 7, 3, 6); got[0] != 0 {
		t.Errorf("a known rate: %v, want a grant", got)
	}
	if n := s.Counts.NoThrottle.Load(); n != 1 {
		t.Errorf("%d answers are counted as errors, want 1", n)
	}
}

// TestThrottleIsShared: of many clients at one instant as many get a unit as there are.
func TestThrottleIsShared(t *testing.T) {
	s := newTestServer(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				throttled(t, s, "k", 99, 1, 3600)
			}
		})
	}
	all.Wait()
	if n := s.Counts.ThrottleAllowed.Load(); n != 100 {
		t.Errorf("%d granted of 100", n)
	}
}

// TestThrottleOnRedis: the answers on Redis are those on the memory engine.
func TestThrottleOnRedis(t *testing.T) {
	engine, _ := enginetest.On(t, redistest.Shared(t).Addr)
	redistest.Shared(t).Must(t, "FLUSHALL")
	s := newTestServer(t, func(c *Config) {
		c.Engine, c.Waits = fallback.New(engine, fallback.FailClosed, fallback.Timeout(patience)), true
	})
	const hour = 3600
	for i, c := range []struct {
		n    int64
		want [5]int64
	}{
		{6, [5]int64{1, 5, 5, -1, 0}},
		{0, [5]int64{0, 5, 5, -1, 0}},
		{3, [5]int64{0, 5, 2, -1, 3000 * hour}},
		{3, [5]int64{1, 5, 2, 1000 * hour, 3000 * hour}},
		{weir.MaxUnits, [5]int64{1, 5, 2, -1, 3000 * hour}},
		{2, [5]int64{0, 5, 0, -1, 5000 * hour}},
	} {
		got := throttled(t, s, "answers\x00{}", 4, 1, 1000*hour, c.n)
		for j := 3; j < 5; j++ { // time goes on
			if c.want[j] > 0 && got[j] < c.want[j] && got[j] > c.want[j]-hour {
				got[j] = c.want[j]
			}
		}
		if got != c.want {
			t.Errorf("step %d, %d units: %v, want nearly %v", i, c.n, got, c.want)
		}
	}
}

package weirredis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/weirredis"
)

var minutes = func() *engine.Calendar {
	p := weir.Policy{Name: "x", Limits: []weir.Limit{{Name: "hour", Max: 2, Kind: weir.KindFixed, Period: weir.Hour}}}
	c, err := p.Compile()
	if err != nil {
		panic(err)
	}
	return c.Limits[0].Period
}()

func randomRules(t *testing.T, r *rand.Rand, name string) *engine.Compiled {
	const ms = 1000
	mode := pick(r, engine.AllOrNothing, engine.AllOrNothing, engine.Partial, engine.CountDenied)
	var limits []engine.Limit
	for i := range 1 + r.IntN(3) {
		l := engine.Limit{Name: fmt.Sprint("l", i), Max: 1 + r.Int64N(12), Window: pick[int64](r, 50*ms, 400*ms, 3000*ms)}
		switch k := r.IntN(8); {
		case k < 3:
			if r.IntN(4) == 0 {
				l.Cell = l.Window / 5
			}
		case k == 3:
			l.Kind = engine.KindFixed
			if r.IntN(2) == 0 {
				l.Period, l.Window = minutes, time.Minute.Microseconds()
			}
		case k == 4:
			l.Kind = engine.KindFixedFromFirst
		case k == 5:
			l.Kind, l.Capacity = engine.KindBucket, 1+r.Int64N(15)
		default:
			if mode != engine.CountDenied {
				l.Kind = engine.KindConcurrency
			}
		}
		if r.IntN(4) == 0 {
			l.MinInterval = 1 + r.Int64N(l.Window/4)
		}
		if r.IntN(5) == 0 && mode != engine.Partial {
			l.Cost = 1 + r.Int64N(l.Max)
		}
		if r.IntN(2) == 0 {
			l.Block = pick[int64](r, 1*ms, 100*ms, 2000*ms)
		}
		if r.IntN(30) == 0 {
			l.Max = engine.MaxUnits
			if l.Kind == engine.KindBucket {
				l.Max = 1000
			}
		}
		if r.IntN(20) == 0 && l.Kind != engine.KindBucket {
			l.Max = 0
			l.Cost = 0
		}
		l.By = []int{0}
		limits = append(limits, l)
	}
	return engine.Compile(name, mode, []string{"user"}, limits)
}

func TestDuel48(t *testing.T) {
	seeds, first := uint64(200), uint64(0)
	if s := os.Getenv("SEEDS"); s != "" {
		seeds, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("FIRST"); s != "" {
		first, _ = strconv.ParseUint(s, 10, 64)
	}
	conn := redisConn(t)
	e := newEngine(t, conn, weirredis.DenialCacheTTL(0))
	long := newEngine(t, conn, weirredis.DenialCacheTTL(0), weirredis.WithChunks(9))
	counts := map[string]int{}
	for seed := first; seed < first+seeds; seed++ {
		r := rand.New(rand.NewPCG(seed, 48))
		duel48(t, r, pick(r, e, long), seed, counts)
	}
	t.Log(counts)
}

func duel48(t *testing.T, r *rand.Rand, e *weirredis.Engine, seed uint64, counts map[string]int) {
	name := fmt.Sprint("duel", time.Now().UnixNano())
	other := spec.New()
	var all []*engine.Compiled
	rules := randomRules(t, r, name)
	all = append(all, rules)
	if r.IntN(3) == 0 { // changed numbers
		changed := append([]engine.Limit(nil), rules.Limits...)
		for i := range changed {
			changed[i].Block = pick[int64](r, 0, 1000, 100_000)
			changed[i].Max = 1 + r.Int64N(12)
			changed[i].Refill, changed[i].Capacity = engine.Refill{}, 0
			changed[i].Cost = min(changed[i].Cost, changed[i].Max)
		}
		all = append(all, engine.Compile(name, rules.Mode, []string{"user"}, changed))
	}
	at := nine.UnixMicro() - r.Int64N(2)*500_000
	var trace []string
	lastAt, newest := at, 0
	type opened struct {
		key, id string
		units   int64
		last    engine.Call
	}
	var open []opened
	for step := range 150 {
		switch r.IntN(14) {
		case 0:
			at += r.Int64N(3_000_000)
		case 1:
			at -= r.Int64N(1_000_000)
		case 2:
			if r.IntN(3) == 0 {
				at -= r.Int64N(4) * r.Int64N(2_000_000)
			}
		case 3:
			at += pick(r, int64(1), 0, 999, 50_000, 100_000)
		default:
			at += r.Int64N(60_000)
		}
		p, key := pick(r, all...), pick(r, "u", "u", "u", "u", "u", "u", "v")
		c := engine.Call{Rules: p, Key: weir.K(key), At: at, Given: true}
		id := fmt.Sprint("id", max(0, newest-r.IntN(4)))
		switch r.IntN(16) {
		case 0, 1, 2:
			c.Op, c.N = engine.Attempt, 1+r.Int64N(4)
		case 3, 4, 5:
			if r.IntN(5) > 0 {
				newest++
				id = fmt.Sprint("id", newest)
			}
			c.Op, c.N, c.ID, c.TTL = engine.Attempt, 1+r.Int64N(5), id, 1000+r.Int64N(2_000_000)
			if r.IntN(8) == 0 {
				c.TTL = 0
			}
		case 6:
			c.Op, c.N = pick(r, engine.Peek, engine.Attempt), r.Int64N(5)
		case 7:
			c.Op, c.N = engine.Record, 1+r.Int64N(3)
			if r.IntN(3) == 0 {
				c.ID = id
			}
		case 8:
			c.Op, c.N, c.From = engine.Refund, 1+r.Int64N(3), pick(r, engine.Oldest, lastAt)
		case 9:
			c.Op, c.N = engine.Probe, r.Int64N(5)
		case 10:
			c.Op, c.From = engine.Block, pick[int64](r, 0, 0, 5_000, 300_000)
			if c.From > 0 && r.IntN(3) > 0 {
				c.Op, c.From, c.N = engine.Attempt, 0, 3
			}
		case 11:
			c.Op = engine.Count
			c.Limit = r.IntN(len(p.Limits))
			c.From = 1 + r.Int64N(p.Limits[c.Limit].Window)
			if p.Limits[c.Limit].Kind == engine.KindBucket {
				c.Op, c.From, c.Limit = engine.Peek, 0, 0
			}
		case 12, 13:
			c.Op, c.ID, c.N = engine.Settle, id, pick(r, engine.AllUnits, r.Int64N(8), r.Int64N(4))
			if r.IntN(40) == 0 {
				c.N = engine.MaxUnits
			}
		case 14:
			c.Op, c.ID, c.N, c.From = engine.Extend, id, pick(r, 0, r.Int64N(4)), pick(r, engine.Unknown, r.Int64N(7))
		case 15:
			c.Op, c.ID, c.N, c.From = engine.Extend, id, pick(r, 0, 1, 2, engine.MaxUnits), engine.Unknown
			if r.IntN(30) == 0 {
				c.Op, c.ID, c.N = engine.Reset, "", 0
			}
		}
		if c.Op == engine.Settle || c.Op == engine.Extend {
			if len(open) > 0 && r.IntN(8) > 0 {
				o := open[max(0, len(open)-1-r.IntN(3))]
				c.Key, c.ID = weir.K(o.key), o.id
				if c.Op == engine.Extend && r.IntN(2) == 0 {
					c.From = o.units
				}
				if c.Op == engine.Extend && r.IntN(3) == 0 && o.last.ID != "" {
					c.N, c.From = o.last.N, o.last.From
				}
			}
		}
		var states bool
		if c.Op <= engine.Record || c.Op == engine.Probe {
			states = r.IntN(2) == 0
		}
		run := func(e engine.Engine) (engine.Call, error) {
			c := c
			if states {
				c.States = make([]engine.State, len(p.Limits))
			}
			c.Reservation = &engine.Reservation{Units: 99}
			_, err := do1(e, &c)
			return c, err
		}
		trace = append(trace, fmt.Sprintf("at %d: op %d n %d from %d id %q ttl %d states %v rules %d key %v", at-nine.UnixMicro(), c.Op, c.N, c.From, c.ID, c.TTL, states, len(all), c.Key))
		got, gotErr := run(e)
		want, wantErr := run(other)
		if want.Result.Granted > 0 && !want.Result.At.IsZero() {
			lastAt = want.Result.At.UnixMicro()
		}
		if c.Op == engine.Count {
			got.Result.At, want.Result.At = time.Time{}, time.Time{}
		}
		same := func(a, b error) bool {
			if (a == nil) != (b == nil) {
				return false
			}
			for _, s := range []error{engine.ErrSettled, engine.ErrExpired, engine.ErrOverflow, engine.ErrInput, engine.ErrUnavailable} {
				if errors.Is(a, s) != errors.Is(b, s) {
					return false
				}
			}
			return true
		}
		if u := want.Reservation.Units; wantErr == nil && u > 0 {
			if c.Op == engine.Attempt && !want.Result.Replayed {
				open = append(open, opened{c.Key.Value(0), c.ID, u, engine.Call{}})
			}
			for i := range open {
				if o := &open[i]; o.id == c.ID && o.key == c.Key.Value(0) {
					o.units = u
					if c.Op == engine.Extend {
						o.last = c
					}
				}
			}
		}
		what := fmt.Sprintf("op%d", c.Op)
		if wantErr != nil {
			what += " err"
		} else if want.Result.Replayed {
			what += " replayed"
		} else if want.Result.Blocked > 0 {
			what += " blocked"
		} else if want.Result.Allowed {
			what += " allowed"
		}
		counts[what]++
		if got.Result != want.Result || !same(gotErr, wantErr) || !reflect.DeepEqual(got.States, want.States) || !reflect.DeepEqual(got.Reservation, want.Reservation) {
			t.Fatalf("seed %d step %d mode %v\n%+v\n%s\ngot  %+v %+v %v\n  %+v\nwant %+v %+v %v\n  %+v", seed, step, p.Mode, p.Limits,
				strings.Join(trace[max(0, len(trace)-25):], "\n"), got.Result, got.Reservation, gotErr, got.States, want.Result, want.Reservation, wantErr, want.States)
		}
	}
}

func do1(e engine.Engine, c *engine.Call) (engine.Result, error) {
	calls := []engine.Call{*c}
	e.Do(ctx, calls)
	*c = calls[0]
	return c.Result, c.Err
}

func TestTogether48(t *testing.T) {
	seeds := uint64(100)
	if s := os.Getenv("SEEDS"); s != "" {
		seeds, _ = strconv.ParseUint(s, 10, 64)
	}
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	counts := map[string]int{}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 49))
		other := spec.New()
		name := fmt.Sprint("join", time.Now().UnixNano())
		var rules []*engine.Compiled
		for i := 0; len(rules) < 3; i++ {
			p := randomRules(t, r, fmt.Sprint(name, i))
			ok := p.Mode != engine.CountDenied
			for _, l := range p.Limits {
				ok = ok && l.Kind != engine.KindConcurrency
			}
			if ok {
				rules = append(rules, p)
			}
		}
		at := nine.UnixMicro()
		var trace []string
		for step := range 80 {
			at += r.Int64N(50_000)
			if r.IntN(10) == 0 {
				at -= r.Int64N(800_000)
			}
			var calls []engine.Call
			for range 1 + r.IntN(4) {
				p := pick(r, rules...)
				calls = append(calls, engine.Call{Rules: p, Key: weir.K(pick(r, "u", "u", "v")), N: r.Int64N(4), At: at, Given: true})
			}
			trace = append(trace, fmt.Sprintf("%+v", calls))
			run := func(e engine.Engine) ([]engine.Call, error) {
				mine := append([]engine.Call(nil), calls...)
				for i := range mine {
					if i%2 == 0 {
						mine[i].States = make([]engine.State, len(mine[i].Rules.Limits))
					}
				}
				err := engine.Together(ctx, e, mine)
				return mine, err
			}
			got, gotErr := run(e)
			want, wantErr := run(other)
			if (gotErr == nil) != (wantErr == nil) {
				t.Fatal(seed, step, gotErr, wantErr)
			}
			for i := range got {
				if want[i].Result.Blocked > 0 {
					counts["blocked"]++
				} else if want[i].Result.Allowed {
					counts["allowed"]++
				} else {
					counts["denied"]++
				}
				if got[i].Result != want[i].Result || !reflect.DeepEqual(got[i].States, want[i].States) {
					t.Fatalf("seed %d step %d call %d\n%+v\ngot  %+v\n     %+v\nwant %+v\n     %+v", seed, step, i, calls, got[i].Result, got[i].States, want[i].Result, want[i].States)
				}
			}
		}
	}
	t.Log(counts)
}

package weirredis_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// duel sends the calls of one policy to the engine on Redis and to the specification.
type duel struct {
	about string
	redis *weirredis.Engine
	spec  *spec.Engine
	rules *engine.Compiled
	at    int64           // the caller's clock in microseconds
	trace []func() string // the calls so far
}

// newDuel returns a duel under a policy, which gets a name of its own.
func newDuel(t *testing.T, e *weirredis.Engine, mode weir.Mode, limits ...weir.Limit) *duel {
	t.Helper()
	name := fmt.Sprint("duel", time.Now().UnixNano())
	return &duel{redis: e, spec: spec.New(), rules: limiter(t, e, name, mode, limits...).Compiled(), at: nine.UnixMicro()}
}

// logf adds a line to the trace, which is formatted only for a failure.
func (d *duel) logf(format string, args ...any) {
	d.trace = append(d.trace, func() string { return fmt.Sprintf(format, args...) })
}

// answer is the answer to one call.
type answer struct {
	result  engine.Result
	states  [4]engine.State
	problem string
}

// same makes a call at d.at and fails the test unless both engines answer alike.
func (d *duel) same(t *testing.T, c engine.Call) engine.Result {
	t.Helper()
	d.logf("at %d: op %d of %d from %d, limit %d, states %v, id %q", d.at, c.Op, c.N, c.From, c.Limit, c.States != nil, c.ID)
	c = d.call(c)
	got, want := answerOf(d.redis, c), answerOf(d.spec, c)
	d.compare(t, got, want)
	return want.result
}

// call completes a call. The caller's clock decides.
func (d *duel) call(c engine.Call) engine.Call {
	if c.Rules == nil {
		c.Rules = d.rules
	}
	c.Key, c.At, c.Given = weir.K("u"), d.at, true
	return c
}

func (d *duel) compare(t *testing.T, got, want answer) {
	t.Helper()
	if got == want {
		return
	}
	for _, line := range d.trace[max(0, len(d.trace)-12):] {
		t.Log(line())
	}
	t.Fatalf("%s, step %d, %+v:\ngot  %+v\nwant %+v", d.about, len(d.trace), d.rules, got, want)
}

// answerOf makes a call with room of its own for states. Counts have units only.
func answerOf(e engine.Engine, c engine.Call) (got answer) {
	if c.States != nil {
		c.States = got.states[:len(c.Rules.Limits)]
	}
	var err error
	if got.result, err = do(e, c); err != nil {
		got.problem = kindOfError(err)
	}
	if c.Op == engine.Count {
		got.result = engine.Result{Granted: got.result.Granted}
	}
	return got
}

// kindOfError returns the text of the sentinel that the error wraps, or the wrong field.
func kindOfError(err error) string {
	var input *engine.InputError
	if errors.As(err, &input) {
		return input.Field
	}
	if errors.Is(err, weir.ErrOverflow) || strings.HasPrefix(err.Error(), "weir:overflow ") { // as in a batch
		return weir.ErrOverflow.Error()
	}
	return err.Error()
}

// TestAgreesWithTheSpecification runs random histories under limits of all kinds, whole and
// cut into tiny chunks. Kinds and numbers change while histories stay (R12). WEIR_SEEDS is
// the number of histories for each size of chunks.
func TestAgreesWithTheSpecification(t *testing.T) {
	seeds := uint64(240)
	if n, err := strconv.ParseUint(os.Getenv("WEIR_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	conn := redisConn(t)
	for _, bytes := range []int{96, 1, 9, 30} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			e := newEngine(t, conn, weirredis.WithChunks(bytes), weirredis.DenialCacheTTL(0))
			for seed := range seeds {
				h := newRandomHistory(t, e, seed)
				for range 90 {
					h.step(t)
				}
			}
		})
	}
}

// randomHistory is a duel with random calls.
type randomHistory struct {
	*duel
	r       *rand.Rand
	policy  weir.Policy
	large   bool    // sums are as large as they can be; above 2^53 Lua's numbers skip every other integer
	huge    bool    // some records are as large as possible
	instant []int64 // instants of grants, and those at which something changes
	ids     int
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// newRandomHistory begins a history. Every other one has large numbers. A few of those are in
// the last minutes of the year 2255.
func newRandomHistory(t *testing.T, e *weirredis.Engine, seed uint64) *randomHistory {
	t.Helper()
	h := &randomHistory{r: rand.New(rand.NewPCG(seed, 53)), large: seed%2 == 1, huge: seed%8 == 0}
	h.policy.Name = "p"
	h.policy.Mode = pick(h.r, weir.AllOrNothing, weir.AllOrNothing, weir.Partial, weir.CountDenied)
	for i := range pick(h.r, 1, 1, 2, 2, 3, 4) {
		h.policy.Limits = append(h.policy.Limits, weir.Limit{Name: fmt.Sprintf("l%d", i), By: []string{"user"}})
		h.vary(i)
	}
	h.duel = newDuel(t, e, h.policy.Mode, h.policy.Limits...)
	h.about, h.policy.Name = fmt.Sprint("seed ", seed), h.rules.Name
	if seed%10 == 1 {
		h.at = weir.MaxInstant - 100_000
	}
	return h
}

// most returns the Max of a limit, in a large history mostly above the half of weir.MaxUnits.
func (h *randomHistory) most() int64 {
	if !h.large {
		return pick[int64](h.r, 0, 1, 2, 3, 7, 10, 100, 1000, 1<<40)
	}
	near := pick[int64](h.r, 0, 1<<49, 1<<50, 1<<51, 1<<51)
	return min(max(near+h.r.Int64N(9)-4, 0), weir.MaxUnits)
}

// vary gives limit i other numbers.
func (h *randomHistory) vary(i int) {
	for {
		l := weir.Limit{Name: h.policy.Limits[i].Name, By: h.policy.Limits[i].By, Max: h.most()}
		l.Kind = pick(h.r, weir.Rolling, weir.Fixed, weir.FixedFromFirst, weir.Concurrency, weir.Bucket, weir.Bucket)
		l.Window = pick(h.r, time.Millisecond, time.Second, 7*time.Second, time.Minute, time.Hour, 30*time.Hour, 400*24*time.Hour)
		if h.large {
			l.Kind = pick(h.r, weir.Rolling, weir.Rolling, weir.Rolling, weir.Rolling, weir.Fixed, weir.FixedFromFirst)
			l.Window = time.Duration(1+h.r.IntN(60)) * time.Millisecond
		}
		if h.r.IntN(4) == 0 {
			l.MinInterval = pick(h.r, time.Microsecond, l.Window/10, l.Window).Truncate(time.Microsecond)
		}
		if h.r.IntN(5) == 0 && h.policy.Mode != weir.Partial {
			l.Cost = max(1, pick(h.r, 1, 2, 5, 1<<39, h.most()))
		}
		switch l.Kind {
		case weir.Concurrency:
			l.Window, l.MaxHold = 0, l.Window
		case weir.Rolling:
			l.Cells = pick(h.r, 0, 0, 0, 1, 4, 20, 60)
		case weir.Bucket:
			l.Max = min(l.Max, 1_000_003)
			l.Burst = pick[int64](h.r, 0, 1, 2, 5, 20, l.Max*3)
		case weir.Fixed:
			// Waits of huge records reach beyond the year 2255, where no zone has windows.
			if !h.huge && !h.large && h.r.IntN(3) > 0 {
				l.Period, l.Window = pick(h.r, weir.Hour, weir.Day, weir.Week, weir.Month), 0
				l.Zone = pick(h.r, "", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu")
				if l.Period == weir.Month {
					l.Anchor = pick(h.r, 0, 1, 14, 31)
				}
			}
		}
		h.policy.Limits[i] = l
		if _, err := h.policy.Compile(); err == nil || !isOf(err, l.Name) {
			return
		}
	}
}

// isOf reports whether the error is about the limit, or about the policy as a whole.
func isOf(err error, limit string) bool {
	var problem *weir.PolicyError
	return errors.As(err, &problem) && (problem.Limit == limit || problem.Limit == "")
}

// change gives a limit other numbers, and the policy perhaps another mode.
func (h *randomHistory) change(t *testing.T) {
	t.Helper()
	before := h.policy.Mode
	h.policy.Mode = weir.Mode(h.r.IntN(3))
	if _, err := h.policy.Compile(); err != nil {
		h.policy.Mode = before
	}
	h.vary(h.r.IntN(len(h.policy.Limits)))
	h.rules = limiter(t, h.redis, h.policy.Name, h.policy.Mode, h.policy.Limits...).Compiled()
	h.logf("policy %+v", weir.Policy{Mode: h.policy.Mode, Limits: slices.Clone(h.policy.Limits)})
}

// step sends one random call to both engines.
func (h *randomHistory) step(t *testing.T) {
	t.Helper()
	h.pass()
	limit := h.r.IntN(len(h.policy.Limits))
	switch n := h.r.IntN(20); {
	case n == 0:
		h.change(t)
	case n < 4:
		c := engine.Call{Op: engine.Refund, From: engine.Oldest, N: h.units(), ID: h.id(5)}
		if len(h.instant) > 0 && h.r.IntN(4) > 0 {
			c.From = min(pick(h.r, h.instant...), weir.MaxInstant)
		}
		h.same(t, c)
	case n == 4 && h.rules.Limits[limit].Kind != weir.Bucket:
		h.same(t, engine.Call{Op: engine.Count, Limit: limit, From: 1 + h.r.Int64N(h.rules.Limits[limit].Window)})
	default:
		h.decide(t)
	}
}

// id returns a new idempotency key, the last one, or mostly none.
func (h *randomHistory) id(rarely int) string {
	if h.r.IntN(rarely) > 0 {
		return ""
	}
	h.ids++
	return fmt.Sprint(h.ids - h.r.IntN(2))
}

// pass moves the clock, mostly forward and often to an instant at which something changes.
func (h *randomHistory) pass() {
	l := h.rules.Limits[h.r.IntN(len(h.policy.Limits))]
	switch n := h.r.IntN(24); {
	case n < 5:
	case n < 9:
		h.at++
	case n < 14:
		h.at += h.r.Int64N(l.Window/8 + 1)
	case n < 20 && len(h.instant) > 0:
		if at := pick(h.r, h.instant...); at-h.at > -2_000_000 && at-h.at < 500*24*3_600_000_000 {
			h.at = at + pick[int64](h.r, -1, 0, 0, 1)
		}
	case n < 21:
		h.at += l.Window + pick[int64](h.r, -1, 0, 1)
	case n < 22 && l.Period != nil:
		_, end := l.Period.WindowAt(h.at)
		h.at = end + pick[int64](h.r, -1, 0, 1)
	case n < 23:
		h.at -= pick(h.r, 1, l.Window/2, 300_000, 999_999, 1_000_000, 2_000_000)
	}
	h.at = min(max(h.at, 0), weir.MaxInstant)
	h.instant = h.instant[max(0, len(h.instant)-12):]
}

func (h *randomHistory) units() int64 {
	l := h.rules.Limits[h.r.IntN(len(h.policy.Limits))]
	n := min(weir.MaxUnits, pick(h.r, 0, 1, 1, 1, 1, 2, 3, l.Capacity/2, l.Capacity, l.Capacity+1))
	if h.large && h.r.IntN(2) == 0 {
		n = h.most()
	}
	return n
}

func (h *randomHistory) decide(t *testing.T) {
	t.Helper()
	c := engine.Call{N: h.units(), Op: pick(h.r, engine.Attempt, engine.Attempt, engine.Attempt, engine.Attempt, engine.Peek, engine.Record), Rules: h.rules}
	if c.Op == engine.Record && h.huge && h.r.IntN(8) == 0 {
		c.N = pick(h.r, weir.MaxUnits, weir.MaxUnits/2, h.rules.Limits[0].Refill.MaxExact)
	}
	last := len(h.policy.Limits) - 1
	switch h.r.IntN(6) {
	case 0:
		h.batch(t, c)
		return
	case 1:
		c.ID = h.id(1)
	case 2: // the last limit is that of a peek among calls together
		if last > 0 && h.policy.Mode == weir.AllOrNothing && c.Op != engine.Record {
			c.Rules = limiter(t, h.redis, h.policy.Name, h.policy.Mode, h.policy.Limits...).Compiled()
			c.Rules.Limits[last].Cost = -1
		}
	}
	if h.r.IntN(3) == 0 {
		c.States = make([]engine.State, len(h.policy.Limits))
	}
	if got := h.same(t, c); !got.At.IsZero() {
		h.remember(got)
	}
}

// remember collects the instant of a decision and those at which its answer changes.
func (h *randomHistory) remember(d engine.Result) {
	at := d.At.UnixMicro()
	h.instant = append(h.instant, at, at+d.ResetAfter.Microseconds())
	if d.RetryAfter > 0 {
		h.instant = append(h.instant, at+d.RetryAfter.Microseconds())
	}
}

// batch sends the same request of several callers in one call of the script.
func (h *randomHistory) batch(t *testing.T, c engine.Call) {
	t.Helper()
	all := slices.Repeat([]engine.Call{h.call(c)}, 2+h.r.IntN(4))
	h.logf("at %d: op %d of %d, %d times", h.at, c.Op, c.N, len(all))
	h.redis.DecideBatch(ctx, all)
	for i := range all {
		got, want := answer{result: all[i].Result}, answerOf(h.spec, h.call(c))
		if all[i].Err != nil {
			got.problem = kindOfError(all[i].Err)
		} else {
			h.remember(want.result)
		}
		h.compare(t, got, want)
	}
}

// TestLimitsThatAreOnlyRead: a limit with a Cost below 0 is the one of a peek among calls
// together. Nothing is written for it.
func TestLimitsThatAreOnlyRead(t *testing.T) {
	e := newEngine(t, redisConn(t))
	d := newDuel(t, e, weir.AllOrNothing, perUser(5, time.Hour), weir.Limit{Name: "read", Max: 5, Window: time.Hour})
	d.rules.Limits[1].Cost = -1
	d.same(t, engine.Call{N: 1})
	for i, key := range weirredis.Keys(d.rules, weir.K("u"), false) {
		if got, want := redistest.Shared(t).Must(t, "EXISTS", key), []string{"1", "0"}[i]; got != want {
			t.Errorf("%s of the key %s exist, want %s", got, key, want)
		}
	}
}

// TestRefundsOfOldestSpanEntries: in a long history a refund of engine.Oldest takes its units
// from as many entries as it needs, in every part of the history, and leaves those that no
// longer count (R2, R10).
func TestRefundsOfOldestSpanEntries(t *testing.T) {
	conn := redisConn(t)
	for _, bytes := range []int{96, 1, 9, 30} {
		e := newEngine(t, conn, weirredis.WithChunks(bytes), weirredis.DenialCacheTTL(0))
		for seed := range uint64(8) {
			r := rand.New(rand.NewPCG(seed, 13))
			user := perUser(100_000, time.Hour)
			user.Cells = pick(r, 0, 0, 90)
			d := newDuel(t, e, weir.AllOrNothing, user)
			d.about = fmt.Sprintf("seed %d, chunks of %d", seed, bytes)
			step := int64(time.Hour/time.Microsecond) / int64(pick(r, 30, 300, 1500))
			for range 400 {
				for range r.IntN(6) {
					d.at += r.Int64N(step) + 1
					d.same(t, engine.Call{N: pick[int64](r, 1, 1, 1, 2, 5, 300)})
				}
				switch r.IntN(12) {
				case 0, 1:
					d.same(t, engine.Call{Op: engine.Refund, From: engine.Oldest, N: 1 + r.Int64N(pick[int64](r, 2, 20, 200, 3000))})
				case 2:
					if used := d.same(t, engine.Call{Op: engine.Count, From: d.rules.Limits[0].Window}).Granted; r.IntN(4) == 0 { // all, or nearly
						d.same(t, engine.Call{Op: engine.Refund, From: engine.Oldest, N: max(1, used-r.Int64N(4))})
					}
				case 3:
					d.at += r.Int64N(40 * step)
				case 4:
					d.at -= r.Int64N(1_000_000)
				case 5:
					if r.IntN(4) == 0 {
						d.at -= r.Int64N(20 * step)
					}
				}
				d.same(t, engine.Call{Op: engine.Peek, N: pick[int64](r, 1, 99_000, 99_900, 100_000), States: make([]engine.State, 1)})
			}
		}
	}
}

// TestEdgesOfChunks: entries are recorded or taken back when some, none or all of a chunk have
// left its front. All waits afterwards are exact (R8).
func TestEdgesOfChunks(t *testing.T) {
	conn := redisConn(t)
	second := func(s int) int64 { return nine.Add(time.Duration(s) * time.Second).UnixMicro() }
	for _, bytes := range []int{14, 30, 60} {
		e := newEngine(t, conn, weirredis.WithChunks(bytes), weirredis.DenialCacheTTL(0))
		for filled := 3; filled < 20; filled++ {
			for gone := 1; gone < filled; gone += 1 + gone/4 {
				for about, change := range map[string]func(d *duel){
					"recorded": func(d *duel) {
						for i := range 4 { // some have left when the first comes
							d.at = second(100 + gone + i)
							d.same(t, engine.Call{N: []int64{1, 200}[i%2]})
						}
					},
					"the newest taken back": func(d *duel) {
						d.at = second(100 + gone)
						d.same(t, engine.Call{Op: engine.Refund, From: second(filled - 1), N: 1})
					},
					"several taken back": func(d *duel) {
						for i := filled - 2; i > gone; i-- {
							d.same(t, engine.Call{Op: engine.Refund, From: second(i), N: 1})
						}
					},
				} {
					d := newDuel(t, e, weir.AllOrNothing, perUser(10_000, 100*time.Second))
					d.about = fmt.Sprintf("%s, %d filled, %d gone, chunks of %d", about, filled, gone, bytes)
					for i := range filled {
						d.at = second(i)
						d.same(t, engine.Call{N: 1})
					}
					change(d)
					for n := range int64(filled) {
						d.same(t, engine.Call{Op: engine.Peek, N: 10_000 - n})
					}
					for range filled {
						d.at += 1_000_000
						d.same(t, engine.Call{Op: engine.Peek, N: 1})
					}
				}
			}
		}
	}
}

// TestTrimmingCountsRefundedUnits: in CountDenied a recording keeps the newest entries
// with Max units together (R6). Units that a refund took back deep in a chunk (R10) are
// missing there: another older entry stays in their place, unless the whole entry went.
func TestTrimmingCountsRefundedUnits(t *testing.T) {
	const entries, units = 400, 5
	e := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	for _, at := range []int64{280, 100} {
		for _, back := range []int64{1, 3, units} {
			d := newDuel(t, e, weir.CountDenied, perUser(entries*units, time.Hour))
			d.about = fmt.Sprintf("a refund of %d of entry %d", back, at)
			begin := d.at
			for range entries {
				d.same(t, engine.Call{N: units})
				d.at += 1_000_000
			}
			d.rules = limiter(t, e, d.rules.Name, weir.CountDenied, perUser(200*units, time.Hour)).Compiled()
			d.same(t, engine.Call{Op: engine.Refund, From: begin + at*1_000_000, N: back})
			d.same(t, engine.Call{N: units})
			d.same(t, engine.Call{Op: engine.Count, From: d.rules.Limits[0].Window})
		}
	}
}

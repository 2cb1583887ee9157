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
	"github.com/weirlimit/weir/weirredis"
)

// kinds are the kinds of limits that TestKindsAgreeWithTheSpecification mixes.
var kinds = []weir.Kind{weir.Rolling, weir.Fixed, weir.FixedFromFirst, weir.Concurrency, weir.Bucket, weir.Bucket}

// TestKindsAgreeWithTheSpecification runs random histories under limits of all kinds on
// Redis and on the specification. Kinds and numbers change while histories stay (R12).
// WEIR_SEEDS is the number of histories.
func TestKindsAgreeWithTheSpecification(t *testing.T) {
	seeds := uint64(150)
	if n, err := strconv.ParseUint(os.Getenv("WEIR_SEEDS"), 10, 64); err == nil {
		seeds = n
	}
	redis := newEngine(t, redisConn(t), weirredis.DenialCacheTTL(0))
	for seed := range seeds {
		p := &pair{seed: seed, r: rand.New(rand.NewPCG(seed, 5)), redis: redis, want: spec.New(), at: nine.UnixMicro()}
		p.begin(t)
		for range 60 {
			p.step(t)
		}
	}
}

// pair is one policy on two engines.
type pair struct {
	seed    uint64
	r       *rand.Rand
	redis   *weirredis.Engine
	want    *spec.Engine
	policy  weir.Policy
	plan    *engine.Compiled
	at      int64   // the caller's clock in microseconds
	instant []int64 // of grants, and instants at which something changes
	ids     int
	trace   []string
}

// pick returns one of the values.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func (p *pair) begin(t *testing.T) {
	t.Helper()
	p.policy = weir.Policy{Name: fmt.Sprintf("pair%d", p.seed), Mode: pick(p.r, weir.AllOrNothing, weir.AllOrNothing, weir.Partial, weir.CountDenied)}
	for i := range pick(p.r, 1, 1, 2, 3, 4) {
		p.policy.Limits = append(p.policy.Limits, weir.Limit{Name: fmt.Sprintf("l%d", i), By: []string{"user"}})
		p.vary(i)
	}
	p.compile(t)
	if _, err := p.do(p.redis, engine.Call{Op: engine.Reset}); err != nil {
		t.Fatal(err)
	}
}

// vary gives limit i other numbers.
func (p *pair) vary(i int) {
	for {
		l := weir.Limit{Name: p.policy.Limits[i].Name, By: p.policy.Limits[i].By}
		l.Kind = pick(p.r, kinds...)
		l.Max = pick[int64](p.r, 0, 1, 2, 3, 7, 10, 100, 1000, 1<<40)
		l.Window = pick(p.r, time.Millisecond, time.Second, 7*time.Second, time.Minute, time.Hour, 30*time.Hour, 400*24*time.Hour)
		if p.r.IntN(4) == 0 {
			l.MinInterval = pick(p.r, time.Microsecond, l.Window/10, l.Window).Truncate(time.Microsecond)
		}
		if p.r.IntN(5) == 0 && p.policy.Mode != weir.Partial {
			l.Cost = pick[int64](p.r, 1, 2, 5, 1<<39)
		}
		switch l.Kind {
		case weir.Concurrency:
			l.Window, l.MaxHold = 0, l.Window
		case weir.Rolling:
			l.Cells = pick(p.r, 0, 0, 0, 1, 4, 60)
		case weir.Bucket:
			l.Max = min(l.Max, 1_000_003)
			l.Burst = pick[int64](p.r, 0, 1, 2, 5, 20, l.Max*3)
		case weir.Fixed:
			if !p.huge() && p.r.IntN(3) > 0 {
				l.Period, l.Window = pick(p.r, weir.Hour, weir.Day, weir.Week, weir.Month), 0
				l.Zone = pick(p.r, "", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Asia/Kathmandu")
				if l.Period == weir.Month {
					l.Anchor = pick(p.r, 0, 1, 14, 31)
				}
			}
		}
		p.policy.Limits[i] = l
		if _, err := p.policy.Compile(); err == nil || !isOf(err, l.Name) {
			return
		}
	}
}

// isOf reports whether the error is about the limit, or about the policy as a whole.
func isOf(err error, limit string) bool {
	var problem *weir.PolicyError
	return errors.As(err, &problem) && (problem.Limit == limit || problem.Limit == "")
}

// huge reports whether records are as large as possible. Waits then reach beyond the year
// 2255, where no zone has windows.
func (p *pair) huge() bool { return p.seed%4 == 0 }

func (p *pair) compile(t *testing.T) {
	t.Helper()
	plan, err := p.policy.Compile()
	if err != nil {
		t.Fatalf("seed %d: %v", p.seed, err)
	}
	p.plan = plan
	p.logf("policy %+v", p.policy)
}

func (p *pair) logf(format string, args ...any) {
	p.trace = append(p.trace, fmt.Sprintf(format, args...))
}

// step sends one random call to both engines.
func (p *pair) step(t *testing.T) {
	t.Helper()
	p.pass()
	switch n := p.r.IntN(20); {
	case n == 0:
		p.vary(p.r.IntN(len(p.policy.Limits)))
		p.compile(t)
	case n < 3:
		p.refund(t)
	case n == 3:
		p.count(t)
	default:
		p.decide(t)
	}
}

// pass moves the clock, mostly forward and often to an instant at which something changes.
func (p *pair) pass() {
	l := p.plan.Limits[p.r.IntN(len(p.policy.Limits))]
	switch n := p.r.IntN(24); {
	case n < 6:
	case n < 8:
		p.at++
	case n < 14:
		p.at += p.r.Int64N(l.Window/8 + 1)
	case n < 20 && len(p.instant) > 0:
		if at := p.instant[p.r.IntN(len(p.instant))]; at-p.at > -2_000_000 && at-p.at < 500*24*3_600_000_000 {
			p.at = at + pick[int64](p.r, -1, 0, 0, 1)
		}
	case n < 21:
		p.at += l.Window + pick[int64](p.r, -1, 0, 1)
	case n < 22 && l.Period != nil:
		_, end := l.Period.WindowAt(p.at)
		p.at = end + pick[int64](p.r, -1, 0, 1)
	case n < 23:
		p.at -= pick[int64](p.r, 1, 300_000, 999_999, 1_000_000, 2_000_000)
	}
	p.at = max(p.at, 0)
	if len(p.instant) > 12 {
		p.instant = p.instant[len(p.instant)-12:]
	}
}

func (p *pair) units() int64 {
	l := p.plan.Limits[p.r.IntN(len(p.policy.Limits))]
	return min(weir.MaxUnits, pick(p.r, 0, 1, 1, 1, 1, 2, 3, l.Capacity/2, l.Capacity, l.Capacity+1))
}

// do makes a call of the policy at the caller's clock.
func (p *pair) do(e engine.Engine, c engine.Call) (engine.Result, error) {
	c.Rules, c.Key, c.At, c.Given = p.plan, weir.K("u"), p.at, true
	return do(e, c)
}

func (p *pair) decide(t *testing.T) {
	t.Helper()
	ask := engine.Call{N: p.units(), Op: pick(p.r, engine.Attempt, engine.Attempt, engine.Attempt, engine.Attempt, engine.Peek, engine.Record)}
	if ask.Op == engine.Record && p.huge() && p.r.IntN(8) == 0 {
		ask.N = pick(p.r, weir.MaxUnits, weir.MaxUnits/2, p.plan.Limits[0].Refill.MaxExact)
	}
	if p.r.IntN(6) == 0 && len(p.policy.Limits) <= 3 {
		p.batch(t, ask)
		return
	}
	if p.r.IntN(6) == 0 {
		ask.ID = fmt.Sprint(p.ids - p.r.IntN(2))
		p.ids++
	}
	states := p.r.IntN(3) == 0
	p.logf("op %d of %d at %d, states %v, id %q", ask.Op, ask.N, p.at, states, ask.ID)
	var answers [2]string
	for i, e := range []engine.Engine{p.redis, p.want} {
		ask.States = nil
		if states {
			ask.States = make([]engine.State, len(p.policy.Limits))
		}
		d, err := p.do(e, ask)
		answers[i] = outcome(d, err) + fmt.Sprintf("%+v", ask.States)
		if err != nil {
			answers[i] = outcome(d, err)
		} else if e == p.want {
			p.remember(d, ask.States)
		}
	}
	p.same(t, answers)
}

// remember collects the instant of a decision and those at which its answer changes.
func (p *pair) remember(d engine.Result, states []engine.State) {
	at := d.At.UnixMicro()
	p.instant = append(p.instant, at, at+d.ResetAfter.Microseconds())
	if d.RetryAfter > 0 {
		p.instant = append(p.instant, at+d.RetryAfter.Microseconds())
	}
	for _, s := range states {
		p.instant = append(p.instant, at+s.NextAfter.Microseconds())
	}
}

// batch sends the same request of several callers in one call.
func (p *pair) batch(t *testing.T, ask engine.Call) {
	t.Helper()
	times := 2 + p.r.IntN(4)
	p.logf("op %d of %d at %d, %d times", ask.Op, ask.N, p.at, times)
	ask.Rules, ask.Key, ask.At, ask.Given = p.plan, weir.K("u"), p.at, true
	all := slices.Repeat([]engine.Call{ask}, times)
	var answers [2]string
	p.redis.DecideBatch(ctx, all)
	for i := range all {
		d, err := do(p.want, ask)
		if err == nil {
			p.remember(d, nil)
		}
		answers[0] += outcome(all[i].Result, all[i].Err) + "\n"
		answers[1] += outcome(d, err) + "\n"
	}
	p.same(t, answers)
}

func (p *pair) refund(t *testing.T) {
	t.Helper()
	at, n := engine.Oldest, p.units()
	if len(p.instant) > 0 && p.r.IntN(5) > 0 {
		at = min(p.instant[p.r.IntN(len(p.instant))], weir.MaxInstant)
	}
	id := ""
	if p.r.IntN(5) == 0 {
		id = fmt.Sprint(p.ids)
		p.ids++
	}
	p.logf("refund %d of %d at %d, id %q", n, at, p.at, id)
	var answers [2]string
	for i, e := range []engine.Engine{p.redis, p.want} {
		d, err := p.do(e, engine.Call{Op: engine.Refund, From: at, N: n, ID: id})
		answers[i] = fmt.Sprint(d.Granted, kindOfError(err))
	}
	p.same(t, answers)
}

func (p *pair) count(t *testing.T) {
	t.Helper()
	i := p.r.IntN(len(p.policy.Limits))
	l := p.plan.Limits[i]
	if l.Kind == weir.Bucket {
		return
	}
	last := 1 + p.r.Int64N(l.Window)
	p.logf("count of limit %d in %d at %d", i, last, p.at)
	var answers [2]string
	for j, e := range []engine.Engine{p.redis, p.want} {
		d, err := p.do(e, engine.Call{Op: engine.Count, Limit: i, From: last})
		answers[j] = fmt.Sprint(d.Granted, kindOfError(err))
	}
	p.same(t, answers)
}

// outcome describes a result or its error.
func outcome(d engine.Result, err error) string {
	if err != nil {
		return kindOfError(err)
	}
	return fmt.Sprintf("%+v", d)
}

// kindOfError returns the text of the sentinel that the error wraps, or the wrong field.
func kindOfError(err error) string {
	var input *engine.InputError
	if errors.As(err, &input) {
		return input.Field
	}
	if errors.Is(err, weir.ErrOverflow) {
		return weir.ErrOverflow.Error()
	}
	if err != nil && strings.HasPrefix(err.Error(), "weir:overflow ") { // of a batch
		return weir.ErrOverflow.Error()
	}
	return fmt.Sprint(err)
}

func (p *pair) same(t *testing.T, answers [2]string) {
	t.Helper()
	if answers[0] == answers[1] {
		return
	}
	for _, line := range p.trace[max(0, len(p.trace)-12):] {
		t.Log(line)
	}
	t.Fatalf("seed %d, step %d: on Redis\n%s\nby the specification\n%s", p.seed, len(p.trace), answers[0], answers[1])
}

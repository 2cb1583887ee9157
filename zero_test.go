package weir_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	kit "github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/policy"
	"github.com/weirlimit/weir/weirdisk"
	"github.com/weirlimit/weir/weirhttp"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirtest"
)

// zeroEngines are the zero and the nil engine of each type, and engines around no engine, with the
// next step that their errors name.
func zeroEngines() map[string]struct {
	engine engine.Engine
	want   string
} {
	type zero = struct {
		engine engine.Engine
		want   string
	}
	ignore := func(context.Context, *engine.Call, time.Duration) {}
	return map[string]zero{
		"zero memory":       {new(weir.Memory), "weir.NewMemory"},
		"nil memory":        {(*weir.Memory)(nil), "weir.NewMemory"},
		"zero disk":         {new(weirdisk.Engine), "weirdisk.Open"},
		"nil disk":          {(*weirdisk.Engine)(nil), "weirdisk.Open"},
		"zero Redis":        {new(weirredis.Engine), "weirredis.New"},
		"nil Redis":         {(*weirredis.Engine)(nil), "weirredis.New"},
		"zero fallback":     {new(fallback.Engine), "fallback.New"},
		"nil fallback":      {(*fallback.Engine)(nil), "fallback.New"},
		"fallback of none":  {fallback.New(nil, fallback.Allow), "fallback.New"},
		"fallback of nil":   {fallback.New((*weir.Memory)(nil), fallback.Share), "fallback.New"},
		"fallback of zero":  {fallback.New(new(weirredis.Engine), fallback.Allow), "weirredis.New"},
		"zero memory seen":  {weir.Observe(weir.Observe(new(weir.Memory), ignore), ignore), "weir.NewMemory"},
		"zero Redis seen":   {weir.Observe(new(weirredis.Engine), ignore), "weirredis.New"},
		"zero disk seen":    {weir.Observe(new(weirdisk.Engine), ignore), "weirdisk.Open"},
		"zero faulty":       {new(weirtest.Faulty), "weirtest.NewFaulty"},
		"nil faulty":        {(*weirtest.Faulty)(nil), "weirtest.NewFaulty"},
		"faulty of nothing": {weirtest.NewFaulty(nil), "weirtest.NewFaulty"},
	}
}

// onePerMinute is a policy of one limit.
func onePerMinute() weir.Policy {
	return weir.Policy{Name: "p", Limits: []weir.Limit{weir.PerMinute(1)}}
}

// TestZeroEnginesDecideNothing: every operation of a zero or nil engine is an error of bad input
// that names the next step, also of a limiter around it, and changes an earlier error of no call.
func TestZeroEnginesDecideNothing(t *testing.T) {
	rules := must(onePerMinute().Compile())
	earlier := errors.New("earlier")
	for name, c := range zeroEngines() {
		t.Run(name, func(t *testing.T) {
			for op := engine.Attempt; op <= engine.Probe; op++ {
				stale := engine.Result{Allowed: true, Granted: 7}
				calls := []engine.Call{{Rules: rules, Op: op, N: 1, From: 1, Result: stale}, {Err: earlier}}
				if op < engine.Refund {
					calls[0].States = []engine.State{{Name: "stale"}}
				}
				c.engine.Do(ctx, calls)
				isBadInput(t, fmt.Sprint("operation ", op), calls[0].Err, c.want)
				if calls[0].Result != (engine.Result{}) || len(calls[0].States) > 0 && calls[0].States[0].Name != "" {
					t.Errorf("operation %d: the answer is %+v, %+v", op, calls[0].Result, calls[0].States)
				}
				if calls[1].Err != earlier {
					t.Errorf("operation %d: the error before it became %v", op, calls[1].Err)
				}
			}
			l, err := weir.New(onePerMinute(), weir.WithEngine(c.engine))
			if l == nil {
				isBadInput(t, "New", err, "engine", "Memory")
				return
			}
			_, err = l.Allow(ctx, weir.K())
			isBadInput(t, "Allow", err, c.want)
			calls := []weir.Call{{Limiter: l, Request: weir.Request{N: 1}}, {Limiter: l, Request: weir.Request{N: 1}}}
			isBadInput(t, "DecideTogether", weir.DecideTogether(ctx, calls), c.want)
			weir.DecideAll(ctx, calls)
			isBadInput(t, "DecideAll", calls[1].Err, c.want)
		})
	}
}

// isBadInput fails the test unless the error is one of bad input and has one of the texts.
func isBadInput(t *testing.T, from string, err error, texts ...string) {
	t.Helper()
	has := func(text string) bool { return strings.Contains(err.Error(), text) }
	if !errors.Is(err, weir.ErrInput) || !slices.ContainsFunc(texts, has) {
		t.Errorf("%s: the error is %v; want one of bad input with %q", from, err, texts)
	}
}

// TestZeroValuesAreErrors: every call of a zero or nil limiter, set, reservation or engine, and of
// a nil argument, is an error that names the next step (R14).
func TestZeroValuesAreErrors(t *testing.T) {
	file := must(policy.Parse("f", []byte("version: 1\npolicies: {p: {limit: 1 per hour}}")))
	for _, l := range []*weir.Limiter{nil, new(weir.Limiter), (*weir.Limiter)(nil).At(time.Now())} {
		for name, err := range limiterErrors(l) {
			isBadInput(t, "limiter: "+name, err, "weir.New")
		}
		if l.Compiled() != nil {
			t.Errorf("a zero limiter has the rules %v", l.Compiled())
		}
	}
	for _, r := range []*weir.Reservation{nil, new(weir.Reservation)} {
		for name, err := range map[string]error{"Done": r.Done(ctx), "Commit": r.Commit(ctx, 1), "Cancel": r.Cancel(ctx), "Extend": r.Extend(ctx), "Add": second(r.Add(ctx, 1))} {
			isBadInput(t, "reservation: "+name, err, "Decision.Allowed")
		}
		if r.ID() != "" || r.Units() != 0 || !r.HeldUntil().IsZero() || !r.ExpiresAt().IsZero() {
			t.Errorf("a zero reservation %q has %d units until %v", r.ID(), r.Units(), r.ExpiresAt())
		}
	}
	for _, s := range []*enforce.Set{nil, new(enforce.Set)} {
		for name, err := range setErrors(s, file) {
			if !strings.Contains(fmt.Sprint(err), "enforce.Open") && !strings.Contains(fmt.Sprint(err), "weir.NewMemory()") {
				t.Errorf("set: %s: the error is %v", name, err)
			}
		}
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"policy":                {second(weir.New(weir.Policy{})), "Name: empty"},
		"no engine":             {second(weir.New(onePerMinute(), weir.WithEngine(nil))), "open the engine first"},
		"observed nil":          {second(weir.New(onePerMinute(), weir.WithEngine(weir.Observe(nil, nil)))), "open the engine first"},
		"observed nil memory":   {second(weir.New(onePerMinute(), weir.WithEngine(weir.Observe((*weir.Memory)(nil), nil)))), "open the engine first"},
		"set on observed nil":   {second(enforce.New(file, weir.Observe(nil, nil))), "weir.NewMemory()"},
		"no connection":         {second(weirredis.New(nil)), "rueidisconn.New"},
		"no directory":          {second(weirdisk.Open("")), "the directory is empty"},
		"set without file":      {second(enforce.New(nil, weir.NewMemory())), "policy.Parse"},
		"set without an engine": {second(enforce.New(file, nil)), "weir.NewMemory()"},
		"set on nil":            {second(enforce.New(file, (*weirdisk.Engine)(nil))), "weir.NewMemory()"},
		"close of zero disk":    {new(weirdisk.Engine).Close(), "weirdisk.Open"},
		"close of nil disk":     {(*weirdisk.Engine)(nil).Close(), "weirdisk.Open"},
		"state of zero disk":    {new(weirdisk.Engine).Err(), "weirdisk.Open"},
		"state of nil disk":     {(*weirdisk.Engine)(nil).Err(), "weirdisk.Open"},
		"check of zero Redis":   {second(new(weirredis.Engine).Check(ctx)), "weirredis.New"},
		"check of nil Redis":    {second((*weirredis.Engine)(nil).Check(ctx)), "weirredis.New"},
	} {
		if !strings.Contains(fmt.Sprint(c.err), c.want) {
			t.Errorf("%s: the error is %v; want one with %q", name, c.err, c.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// limiterErrors returns the errors of all methods of a limiter.
func limiterErrors(l *weir.Limiter) map[string]error {
	k, now, attempt := weir.K(), time.Now(), weir.Request{N: 1}
	_, _, reserve := l.Reserve(ctx, k, attempt)
	calls := []weir.Call{{Limiter: l, Request: attempt}}
	all := map[string]error{
		"Allow":          second(l.Allow(ctx, k)),
		"AllowN":         second(l.AllowN(ctx, k, 1)),
		"AllowOnce":      second(l.AllowOnce(ctx, k, 1, "id")),
		"Peek":           second(l.Peek(ctx, k, 1)),
		"Record":         second(l.Record(ctx, k, 1)),
		"Decide":         second(l.Decide(ctx, k, attempt)),
		"Refund":         second(l.Refund(ctx, k, now, 1)),
		"Count":          second(l.Count(ctx, k, "limit", time.Second)),
		"Reset":          second(l.Reset(ctx, k)),
		"Block":          second(l.Block(ctx, k, time.Hour)),
		"Reservation":    second(l.Reservation(k, "id")),
		"Wait":           second(l.Wait(ctx, k)),
		"WaitN":          second(l.WaitN(ctx, k, 1)),
		"Key":            second(l.Key(nil)),
		"At":             second(l.At(now).Allow(ctx, k)),
		"Reserve":        reserve,
		"DecideTogether": weir.DecideTogether(ctx, calls),
		"Check":          calls[0].Check(),
	}
	weir.DecideAll(ctx, calls)
	all["DecideAll"] = calls[0].Err
	return all
}

// setErrors returns the errors of all methods of a set.
func setErrors(s *enforce.Set, f *policy.File) map[string]error {
	return map[string]error{
		"Check":  second(s.Check(ctx, "p", nil, 1)),
		"Peek":   second(s.Peek(ctx, "p", nil, 1)),
		"Record": second(s.Record(ctx, "p", nil, 1)),
		"Decide": second(s.Decide(ctx, "p", nil, weir.Request{N: 1})),
		"Refund": second(s.Refund(ctx, "p", nil, time.Now(), 1)),
		"Reset":  second(s.Reset(ctx, "p", nil)),
		"Reload": s.Reload(f),
		"Watch":  s.Watch(ctx, nil),
	}
}

// TestZeroEnginesAreEmpty: methods without an error return zeros.
func TestZeroEnginesAreEmpty(t *testing.T) {
	for _, m := range []*weir.Memory{nil, new(weir.Memory)} {
		assert.Equal(t, m.Stats(), engine.MemoryStats{}, "memory")
		assert.Equal(t, m.Sweep(), 0, "swept")
	}
	for _, e := range []*weirdisk.Engine{nil, new(weirdisk.Engine)} {
		assert.Equal(t, e.Recovery().Bytes, 0, "bytes that were cut")
		assert.Equal(t, e.Stats(), weirdisk.Stats{}, "counts")
	}
	for _, e := range []*fallback.Engine{nil, new(fallback.Engine), fallback.New(nil, fallback.Deny)} {
		assert.Equal(t, e.Status().Failures, 0, "failures of nothing")
		e.Close()
	}
	for _, f := range []*weirtest.Faulty{nil, new(weirtest.Faulty), weirtest.NewFaulty(nil)} {
		f.Break(weirtest.Down())
		f.Break(nil)
		f.Restore()
		assert.Equal(t, f.Calls(), 0, "calls of nothing")
	}
}

// TestNilContextIsAnError: a nil context, which a call would meet only when it must wait, is an
// error of every call, of every engine and of every other way in.
func TestNilContextIsAnError(t *testing.T) {
	var none context.Context
	disk := must(weirdisk.Open(t.TempDir()))
	defer disk.Close()
	rules := must(onePerMinute().Compile())
	redis := must(weirredis.New(noRedis{}))
	for _, e := range []engine.Engine{weir.NewMemory(), disk, redis, fallback.New(weir.NewMemory(), fallback.Allow), weirtest.NewFaulty(weir.NewMemory())} {
		calls := []engine.Call{{Rules: rules, N: 1}}
		e.Do(none, calls)
		isBadInput(t, fmt.Sprintf("%T", e), calls[0].Err, "context.Background")
	}
	l := must(weir.New(onePerMinute()))
	k, attempt := weir.K(), weir.Request{N: 1}
	reservation, _, err := must(weir.New(onePerMinute())).Reserve(ctx, k, attempt)
	kit.Do(t, err)
	_, _, reserve := l.Reserve(none, k, attempt)
	calls := []weir.Call{{Limiter: l, Request: attempt}}
	set := must(enforce.Open("examples/policies/kinds.yaml", weir.NewMemory()))
	for name, err := range map[string]error{
		"Allow":          second(l.Allow(none, k)),
		"Decide":         second(l.Decide(none, k, attempt)),
		"Count":          second(l.Count(none, k, "limit", time.Second)),
		"Reset":          second(l.Reset(none, k)),
		"Block":          second(l.Block(none, k, time.Hour)),
		"Wait":           second(l.Wait(none, k)),
		"Reserve":        reserve,
		"Commit":         reservation.Commit(none, 0),
		"Done":           reservation.Done(none),
		"Add":            second(reservation.Add(none, 1)),
		"Extend":         reservation.Extend(none),
		"DecideTogether": weir.DecideTogether(none, calls),
		"Watch":          set.Watch(none, nil),
		"Check":          second(redis.Check(none)),
	} {
		isBadInput(t, name, err, "context.Background")
	}
	weir.DecideAll(none, calls)
	isBadInput(t, "DecideAll", calls[0].Err, "context.Background")
	assert.Equal(t, must(l.Allow(ctx, k)).Allowed, true, "the attempt after all that were errors")
}

// noRedis is a connection that no call may reach.
type noRedis struct{}

func (noRedis) Eval(context.Context, *weirredis.Script, []string, []string) (string, error) {
	panic("a call without a context reached the connection")
}

// TestNilOptions: a nil option changes nothing.
func TestNilOptions(t *testing.T) {
	memory := weir.NewMemory(nil, weir.MaxKeys(5), nil)
	disk := must(weirdisk.Open(t.TempDir(), nil))
	defer disk.Close()
	l := must(weir.New(weir.Policy{Name: "p", Limits: []weir.Limit{weir.PerMinute(1, "ip")}}, nil,
		weir.WithEngine(fallback.New(memory, fallback.Deny, nil))))
	weirhttp.Middleware(l, weirhttp.By{"ip": weirhttp.ClientIP(nil)}, nil)
	must(l.Allow(ctx, weir.K("ann")))
	if s := memory.Stats(); s.MaxKeys != 5 || s.Keys != 1 {
		t.Errorf("%+v; want 1 key of at most 5", s)
	}
}

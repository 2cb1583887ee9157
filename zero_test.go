package weir_test

import (
	"context"
	"errors"
	"fmt"
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

// TestZeroValues: a zero or nil value of each type that a program makes is an error, or a
// panic with a message, that names the next step (R14).
func TestZeroValues(t *testing.T) {
	p := weir.Policy{Name: "p", Limits: []weir.Limit{weir.PerMinute(1)}}
	on := func(e engine.Engine) func() error {
		return func() error { _, err := weir.New(p, weir.WithEngine(e)); return err }
	}
	var r *weir.Reservation
	var set *enforce.Set
	ignore := func(context.Context, *engine.Call, time.Duration) {}
	zero := func(e engine.Engine) func() error {
		return func() error {
			l := must(weir.New(p, weir.WithEngine(fallback.New(e, fallback.Allow))))
			_, err := l.Allow(ctx, weir.K())
			calls := []weir.Call{{Limiter: l, Request: weir.Request{N: 1}}, {Limiter: l, Request: weir.Request{N: 1}}}
			weir.DecideAll(ctx, calls)
			return errors.Join(err, calls[0].Err, calls[1].Err)
		}
	}
	for name, c := range map[string]struct {
		make func() error
		want string
	}{
		"policy":               {func() error { _, err := weir.New(weir.Policy{}); return err }, "Name: empty"},
		"no engine":            {on(nil), "open the engine first"},
		"nil memory":           {on((*weir.Memory)(nil)), "open the engine first"},
		"zero memory":          {on(new(weir.Memory)), "weir.NewMemory"},
		"nil disk":             {on((*weirdisk.Engine)(nil)), "open the engine first"},
		"nil Redis":            {on((*weirredis.Engine)(nil)), "open the engine first"},
		"nil fallback":         {on((*fallback.Engine)(nil)), "open the engine first"},
		"nil observed":         {on(weir.Observe(nil, ignore)), "open the engine first"},
		"nil memory observed":  {on(weir.Observe((*weir.Memory)(nil), ignore)), "open the engine first"},
		"zero memory observed": {on(weir.Observe(weir.Observe(new(weir.Memory), ignore), ignore)), "weir.NewMemory"},
		"fallback of observed": {func() error { fallback.New(weir.Observe(nil, ignore), fallback.Deny); return nil }, "fallback: New needs an engine"},
		"zero Redis observed":  {zero(weir.Observe(new(weirredis.Engine), ignore)), "weirredis.New"},
		"zero disk observed":   {zero(weir.Observe(new(weirdisk.Engine), ignore)), "weirdisk.Open"},
		"set on nil observed": {func() error {
			_, err := enforce.Open("examples/policies/kinds.yaml", weir.Observe(nil, ignore))
			return err
		}, "weir.NewMemory()"},
		"no connection":        {func() error { _, err := weirredis.New(nil); return err }, "rueidisconn.New"},
		"fallback of nothing":  {func() error { fallback.New(nil, fallback.Deny); return nil }, "fallback: New needs an engine"},
		"fallback of nil":      {func() error { fallback.New((*weir.Memory)(nil), fallback.Deny); return nil }, "fallback: New needs an engine"},
		"faulty of nothing":    {func() error { weirtest.NewFaulty(nil); return nil }, "weirtest: NewFaulty needs an engine"},
		"zero limiter":         {func() error { _, err := new(weir.Limiter).Allow(ctx, weir.K()); return err }, "weir.New"},
		"reserve of zero":      {func() error { _, _, err := new(weir.Limiter).Reserve(ctx, weir.K(), weir.Request{N: 1}); return err }, "weir.New"},
		"key of zero limiter":  {func() error { _, err := new(weir.Limiter).Key(nil); return err }, "weir.New"},
		"zero set":             {func() error { _, err := new(enforce.Set).Check(ctx, "p", nil, 1); return err }, "enforce.Open"},
		"nil set":              {func() error { _, err := set.Check(ctx, "p", nil, 1); return err }, "enforce.Open"},
		"set without a file":   {func() error { _, err := enforce.New(nil, weir.NewMemory()); return err }, "policy.Parse"},
		"set without a store":  {func() error { _, err := enforce.Open("examples/policies/kinds.yaml", nil); return err }, "weir.NewMemory()"},
		"nil set, to reload":   {func() error { return set.Reload(must(policy.Load("examples/policies/kinds.yaml"))) }, "weir.NewMemory()"},
		"nil set, to watch":    {func() error { return set.Watch(ctx, nil) }, "enforce.Open"},
		"fallback of zero":     {zero(new(weir.Memory)), "weir.NewMemory"},
		"zero Redis":           {zero(new(weirredis.Engine)), "weirredis.New"},
		"zero fallback":        {zero(new(fallback.Engine)), "fallback.New"},
		"zero faulty":          {zero(new(weirtest.Faulty)), "weirtest.NewFaulty"},
		"zero disk":            {zero(new(weirdisk.Engine)), "weirdisk.Open"},
		"no fault":             {func() error { weirtest.NewFaulty(weir.NewMemory()).Break(nil); return nil }, "weirtest: Break needs a fault"},
		"zero reservation":     {func() error { return new(weir.Reservation).Extend(ctx) }, "Decision.Allowed"},
		"nil reservation":      {func() error { return r.Done(ctx) }, "Decision.Allowed"},
		"commit of nothing":    {func() error { return r.Commit(ctx, 1) }, "Decision.Allowed"},
		"cancel of nothing":    {func() error { return r.Cancel(ctx) }, "Decision.Allowed"},
		"extension of nothing": {func() error { return r.Extend(ctx) }, "Decision.Allowed"},
	} {
		var err error
		text := fmt.Sprint(kit.Panic(func() { err = c.make() }), err)
		assert.Equal(t, strings.Contains(text, c.want), true, "%s: %s has %q", name, text, c.want)
	}
	for _, r := range []*weir.Reservation{r, new(weir.Reservation)} {
		if r.Units() != 0 || !r.HeldUntil().IsZero() {
			t.Errorf("a nil reservation has %d units until %v", r.Units(), r.HeldUntil())
		}
	}
	var l *weir.Limiter
	if rules := l.Compiled(); rules != nil {
		t.Errorf("a nil limiter has the rules %v", rules)
	}
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
	if keys, _ := memory.Caps(); keys != 5 || memory.Len() != 1 {
		t.Errorf("%d keys of at most %d; want 1 of 5", memory.Len(), keys)
	}
}

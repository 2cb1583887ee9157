package weirredis

import (
	"context"
	"encoding/binary"
	"io/fs"
	"time"

	"github.com/weirlimit/weir"
)

// Sizes are the sizes of the pieces that histories are cut into.
type Sizes = sizes

// WithSizes makes the engine cut histories into pieces of such sizes, so that a
// test meets long histories after a few entries.
func WithSizes(z Sizes) Option {
	s := must(makeScripts(source, z))
	return func(o *options) { o.scripts = s }
}

// WithoutQuick makes the engine decide everything the long way, as WithSizes.
func WithoutQuick(z Sizes) Option {
	s := must(makeScripts(source, z))
	for _, plain := range []struct {
		script **Script
		file   string
		loop   bool
	}{{&s.one, "one", false}, {&s.batch, "batch", true}} {
		g, err := newGenerator(source, z)
		if err != nil {
			panic(err)
		}
		text, err := g.generate(plain.file, shape{Limits: 1, Loop: plain.loop})
		if err != nil {
			panic(err)
		}
		*plain.script = newScript("the long way", text)
	}
	return func(o *options) { o.scripts = s }
}

// Standard are the sizes that histories are cut into otherwise.
var Standard = standardSizes

// Source is the source of the scripts.
var Source fs.ReadFileFS = source

// ScriptTexts generates all scripts and returns their texts by name.
func ScriptTexts(files fs.ReadFileFS) (map[string]string, error) {
	s, err := makeScripts(files, standardSizes)
	if err != nil {
		return nil, err
	}
	return map[string]string{"one": s.one.Text, "batch": s.batch.Text,
		"two": s.two.Text, "three": s.three.Text, "many": s.many.Text, "once": s.once.Text, "refund": s.refund.Text, "count": s.count.Text}, nil
}

// Asking is what one caller asks.
type Asking struct {
	Plan *weir.Plan
	Key  weir.Key
	Ask  weir.Request
}

// Together asks for all of them in one call, as if they had waited for each other.
// They must have as many limits.
func (e *Engine) Together(ctx context.Context, all []Asking) ([]weir.Decision, []error) {
	b := newBatch(new(paper), e.merging)
	callers, asked := make([]*caller, len(all)), make([]question, len(all))
	for i := range all {
		asked[i] = e.ask(all[i].Plan, &all[i].Key, &all[i].Ask)
		callers[i] = b.add(ctx, &asked[i])
	}
	e.together(ctx, b.asks)
	decisions, errs := make([]weir.Decision, len(all)), make([]error, len(all))
	for i, c := range callers {
		if errs[i] = c.err; c.err == nil {
			decisions[i] = asked[i].decision(&c.reply, all[i].Plan)
		}
	}
	return decisions, errs
}

// WithClock makes the engine read its own, monotonic clock from now. The server's
// clock decides as before.
func (e *Engine) WithClock(now func() time.Time) {
	e.now, e.since = now, func(t time.Time) time.Duration { return now().Sub(t) }
}

// Keys returns the keys of a decision, as in a Cluster or not.
func Keys(p *weir.Plan, k weir.Key, cluster bool) []string {
	return (&Engine{spread: cluster}).keysFor(p, &k)
}

// OperationKey returns the key of an operation, as in a Cluster or not.
func OperationKey(p *weir.Plan, k weir.Key, id string, cluster bool) string {
	return (&Engine{spread: cluster}).operationKey(p, &k, id)
}

// Judge judges a server that says this of itself.
func (s *Report) Judge(info string, opts ...CheckOption) error {
	var c check
	for _, set := range opts {
		set(&c)
	}
	fields := fieldsOf(info)
	s.read(fields)
	return s.judge(c, fields)
}

// Idle reports whether nobody is asking.
func (e *Engine) Idle() bool {
	for i := range e.lanes {
		l := &e.lanes[i]
		l.mu.Lock()
		idle := l.under == 0 && len(l.queue) == 0
		l.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}

// Denial is the reply of a script that refuses: waits are microseconds.
func Denial(at time.Time, wait, reset, stays int64) string {
	b := append7([]byte{isLong, 1}, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = append7(b, at.UnixMicro())
	b = binary.BigEndian.AppendUint64(b, uint64(wait))
	return string(append7(append7(b, reset), stays))
}

// Grant is the reply of a script that grants all, after which so many units remain.
func Grant(at time.Time, remaining int64) string {
	b := append7([]byte{isShort}, at.UnixMicro())
	b = binary.BigEndian.AppendUint64(b, uint64(remaining))
	return string(binary.BigEndian.AppendUint64(b, 0))
}

// Remembered is the number of denials in memory.
func (e *Engine) Remembered() int64 { return e.denials.held.Load() }

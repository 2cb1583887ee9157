package weirredis

import (
	"context"
	"encoding/binary"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
)

// PlainBytes is the size of a request of a single caller.
const PlainBytes = plainBytes

// Sizes are the bounds at which histories are cut.
type Sizes = sizes

// WithSizes makes the engine cut histories at other bounds, so that a few entries make a
// long history.
func WithSizes(z Sizes) Option {
	s := makeScripts(z, recipes)
	return func(o *options) { o.scripts = s }
}

// FromTemplates makes the engine use scripts that are made from the templates now, in
// place of lua/generated.
func FromTemplates() Option {
	return func(o *options) { o.scripts = fromTemplates() }
}

var fromTemplates = sync.OnceValue(func() scripts { return makeScripts(standardSizes, recipes) })

// WithoutQuick is WithSizes without the quick path.
func WithoutQuick(z Sizes) Option {
	slow := slices.Clone(recipes)
	for i := range slow {
		slow[i].Quick = false
	}
	s := makeScripts(z, slow)
	return func(o *options) { o.scripts = s }
}

// WithoutBucketPath makes the engine decide every request under a Bucket by the script
// kinds.
func WithoutBucketPath() Option {
	s := maps.Clone(fromTemplates())
	s["bucket"] = newScript("bucket", "return struct.pack('>BI7', 4, 0)")
	s["buckets"] = newScript("buckets", "return string.rep(struct.pack('>BI7', 4, 0), #KEYS)")
	return func(o *options) { o.scripts = s }
}

// Standard are the bounds outside of tests.
var Standard = standardSizes

// Source holds the templates of the scripts.
var Source fs.ReadFileFS = source

// ScriptTexts generates all scripts and returns their texts, with comments, by name.
func ScriptTexts(files fs.ReadFileFS) (map[string]string, error) {
	return generateAll(files, standardSizes, recipes)
}

// DecideBatch decides all requests in one call of a script, as if their callers had waited for
// each other. Their rules have the same number of limits.
func (e *Engine) DecideBatch(ctx context.Context, all []engine.Call) {
	b := newBatch(new(scratch), e.merging)
	callers, requests := make([]*caller, len(all)), make([]request, len(all))
	for i := range all {
		requests[i] = e.newRequest(&all[i])
		callers[i] = b.add(ctx, &requests[i])
	}
	e.callBatch(ctx, b.requests)
	for i, c := range callers {
		one := &all[i]
		one.Result = engine.Result{}
		if c.err == nil && c.reply.elsewhere {
			one.Err = e.decideKinds(ctx, one, &requests[i], c.reply.at)
		} else if one.Err = c.err; c.err == nil {
			one.Result = requests[i].result(&c.reply, one.Rules)
		}
	}
}

// WithClock makes the engine read its own, monotonic clock from now. The server's
// clock decides as before.
func (e *Engine) WithClock(now func() time.Time) {
	e.now, e.since = now, func(t time.Time) time.Duration { return now().Sub(t) }
}

// Keys returns the keys of a decision, as in a Cluster or not.
func Keys(p *engine.Compiled, k engine.Key, cluster bool) []string {
	return (&Engine{spread: cluster}).keysFor(p, &k)
}

// OperationKey returns the key of an operation, as in a Cluster or not.
func OperationKey(p *engine.Compiled, k engine.Key, id string, cluster bool) string {
	return (&Engine{spread: cluster}).operationKey(p, &k, id)
}

// Judge judges a server with this reply to INFO.
func (s *Report) Judge(info string, opts ...CheckOption) error {
	var c check
	for _, set := range opts {
		set(&c)
	}
	fields := fieldsOf(info)
	s.read(fields)
	return s.judge(c, fields)
}

// Idle reports whether no request waits or is in flight.
func (e *Engine) Idle() bool {
	for i := range e.queues {
		q := &e.queues[i]
		q.mu.Lock()
		idle := q.inFlight == 0 && len(q.waiting) == 0
		q.mu.Unlock()
		if !idle {
			return false
		}
	}
	return true
}

// Denial is the reply of a script that denies: waits are microseconds.
func Denial(at time.Time, wait, reset, validFor int64) string {
	b := append7([]byte{replyLong, 1}, 0)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = append7(b, at.UnixMicro())
	b = binary.BigEndian.AppendUint64(b, uint64(wait))
	return string(append7(append7(b, reset), validFor))
}

// DenialByHeader is the reply of a batch to a denied unit of a history of two entries.
func DenialByHeader(at, oldest, last time.Time) string {
	b := append7([]byte{replyDenied}, at.UnixMicro())
	b = append7(append7(append(b, replyHeader5), last.UnixMicro()), oldest.UnixMicro())
	return string(append(b, 0, 0, 0, 0, 0, 0, 1, 0, 0, 2, 1, 0x40)) // lives, own, used, front, its entry
}

// Grant is the reply of a script that grants all, after which so many units remain.
func Grant(at time.Time, remaining int64) string {
	b := append7([]byte{replyShort}, at.UnixMicro())
	b = binary.BigEndian.AppendUint64(b, uint64(remaining))
	return string(binary.BigEndian.AppendUint64(b, 0))
}

// Replay is the stored reply of an operation that was granted in full.
func Replay(at time.Time) string {
	b := append7([]byte{replyReplayed, replyLong, 0}, 1)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = append7(b, at.UnixMicro())
	b = binary.BigEndian.AppendUint64(b, 0)
	return string(append7(append7(b, 0), 0))
}

// Cached returns the number of cached denials.
func (e *Engine) Cached() int64 { return e.cache.size.Load() }

// Counted returns the number of callers that the queues count.
func (e *Engine) Counted() (n int) {
	for i := range e.queues {
		q := &e.queues[i]
		q.mu.Lock()
		n += q.callers
		q.mu.Unlock()
	}
	return n
}

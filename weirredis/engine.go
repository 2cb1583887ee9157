package weirredis

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/isnil"
	"github.com/weirlimit/weir/internal/misuse"
	"github.com/weirlimit/weir/internal/option"
	"github.com/weirlimit/weir/internal/rulecache"
)

// Engine decides on Redis. It is safe for concurrent use, by any number of
// processes on one store. Every call of the zero or nil Engine is an [engine.InputError].
type Engine struct {
	conn    Conn
	scripts scripts
	prefix  string // begins all keys
	batch   bool   // requests may share a call, unless conn is a Cluster
	cache   *denialCache
	plans   rulecache.Cache[plan]
	now     func() time.Time

	learning sync.Mutex  // protects the change of learned
	learned  atomic.Bool // the following are set
	spread   bool        // conn is a Cluster: keys are spread over its slots
	queue    *queue      // nil = every request has a call of its own
}

var _ engine.Engine = (*Engine)(nil)

// maxPrefix is the number of bytes of the longest KeyPrefix.
const maxPrefix = 64

// New returns an engine on conn. It makes no call, so a program can start while its server is
// down.
func New(conn Conn, opts ...Option) (*Engine, error) {
	if isnil.Is(conn) {
		return nil, engine.Input("request",
			"weirredis.New got no connection; make one with rueidisconn.New or goredisconn.New")
	}
	o := config{cacheTTL: defaultCacheTTL, batching: true, scripts: standardScripts}
	option.Apply(&o, opts)
	if len(o.prefix) > maxPrefix || strings.ContainsAny(o.prefix, "{}") {
		return nil, engine.Input("request",
			"the key prefix %.80q is longer than %d bytes or has a brace; "+
				"braces mark the slot of a key in a Cluster: use a short text such as %q",
			o.prefix, maxPrefix, "staging:")
	}
	e := &Engine{
		conn:    conn,
		scripts: o.scripts,
		prefix:  o.prefix,
		batch:   o.batching,
		cache:   newDenialCache(o.cacheTTL),
		now:     time.Now,
	}
	if _, ok := conn.(Topology); !ok {
		e.setSpread(false)
	}
	return e, nil
}

// learn asks conn whether it is a Cluster, if that is not known yet. The answer decides the
// names of keys, so no call can be made without it.
func (e *Engine) learn(ctx context.Context) error {
	if e.learned.Load() {
		return nil
	}
	spread, err := e.conn.(Topology).Clustered(ctx)
	if err != nil {
		return &StoreError{Address: e.address(), Err: callersError(ctx, err)}
	}
	e.setSpread(spread)
	return nil
}

// setSpread sets whether keys are spread over the slots of a Cluster, once.
func (e *Engine) setSpread(spread bool) {
	e.learning.Lock()
	defer e.learning.Unlock()
	if e.learned.Load() {
		return
	}
	e.spread = spread
	if e.batch && !spread {
		e.queue = &queue{e: e}
	}
	e.learned.Store(true)
}

// Option sets one property of an [Engine] that [New] makes. A nil Option changes nothing.
type Option func(*config)

type config struct {
	batching bool
	cacheTTL time.Duration
	prefix   string
	scripts  scripts
}

// DisableBatching sends every request in a call of its own. In a Cluster requests are never
// batched, because the keys of a call must share a slot. Default: requests that arrive while calls
// are in flight share the next call. That halves the server's work for a decision and serves
// several times as many callers.
func DisableBatching() Option { return func(c *config) { c.batching = false } }

// KeyPrefix puts a text before every key, so that several installations, such as staging
// and production, can share a server: "staging:" makes keys such as
// "staging:weir3:{push}user:user=2:42". New rejects a prefix of more than 64 bytes, and one with a
// brace, because braces mark the slot of a key in a Cluster. Default, also for "": no text.
func KeyPrefix(prefix string) Option { return func(c *config) { c.prefix = prefix } }

// DenialCacheTTL sets the time for which a denial may be repeated from memory. 0 or less turns the
// cache off. Default: 100ms. A repeated denial is marked Cached (R8). A cached denial
// ends sooner when the answer can change, and immediately when this engine writes to one of its
// histories. Writes of other processes stay unseen until it expires: after a refund or a reset
// there its wait is too long, after a grant or a record there it may be too short.
//
// The cache repeats attempts of the same units at the engine's clock. Requests for states,
// with an idempotency key or at an instant of the caller are always sent to the server, as
// are peeks. In mode CountDenied no denial is cached, because each is recorded. Nor is a
// denial by a concurrency limit.
func DenialCacheTTL(d time.Duration) Option {
	return func(c *config) { c.cacheTTL = max(d, 0) }
}

// address is the server's address as conn reports it, or "".
func (e *Engine) address() string {
	if s, ok := e.conn.(fmt.Stringer); ok {
		return s.String()
	}
	return ""
}

// Do decides calls in their order ([engine.Engine]). Up to 128 calls share a round trip and one
// reading of the server's clock. A reset has a round trip of its own. In a Cluster every call
// has one, because the keys of a script must share a slot. For one key, no call is decided at an
// earlier instant than a call before it.
func (e *Engine) Do(ctx context.Context, calls []engine.Call) {
	if e == nil || e.conn == nil || ctx == nil {
		misuse.Fail(ctx, calls, "weirredis.New")
		return
	}
	if err := e.learn(ctx); err != nil {
		for i := range calls {
			if c := &calls[i]; c.Err == nil {
				c.Fail(err)
			}
		}
		return
	}
	t := trip{e: e, ctx: ctx}
	for i := range calls {
		c := &calls[i]
		if c.Err != nil {
			continue
		}
		c.Fail(nil)
		switch {
		case c.Op == engine.Reset:
			t.send()
			e.reset(ctx, c)
		case c.Op == engine.Peek && c.Histories != nil:
			t.send()
			e.inspect(ctx, c)
		case len(calls) == 1 || e.spread:
			e.do(ctx, c)
		case !t.answerFromCache(c):
			t.add(c)
		}
	}
	t.send()
	e.order(calls)
}

// do decides one call. Its result and states are clear.
func (e *Engine) do(ctx context.Context, c *engine.Call) {
	if err := ctx.Err(); err != nil {
		c.Fail(err)
		return
	}
	simple := c.Op == engine.Attempt && !c.Given && c.ID == "" && c.States == nil
	if simple && e.cache.latestDenial(c) {
		return
	}
	a := answer{request: e.newRequest(c)}
	if e.spread && c.Rules.Joined {
		if err := oneSlot(c.Rules, a.keys()); err != nil {
			c.Fail(err)
			return
		}
	}
	if simple && a.canCache() {
		if r, ok := e.cache.find(&a.request); ok {
			r.answer(c)
			return
		}
	}
	if e.queue == nil {
		e.callOne(ctx, &a)
	} else {
		e.queue.send(ctx, &a)
	}
	e.finish(ctx, c, &a)
}

// maxTries bounds the calls of one request. The second call has the windows around the server's
// instant, so a third is needed only if a window ends between them.
const maxTries = 4

// errWindows is the error of a request after maxTries.
var errWindows = ReplyError("weirredis: " +
	"the clock of the server leaves every window that is sent; is it being set?")

// finish sets the answer of a call. A request was not decided if the server's instant is outside
// the windows of its Periods. It is then sent again with the windows around that instant.
func (e *Engine) finish(ctx context.Context, c *engine.Call, a *answer) {
	for try := 1; a.err == nil && a.reply.outside; try++ {
		if try == maxTries {
			a.err = errWindows
			break
		}
		if a.plan = newPlan(c, a.reply.at); a.ahead {
			a.plan = a.plan.withWindows(a.windows)
		}
		e.callOne(ctx, a)
	}
	if a.err != nil {
		c.Fail(e.callError(ctx, a.err, c, a.keysAtFault(a.reply.key), a.writes()))
		return
	}
	if !c.Given {
		e.cache.add(c, a)
	}
	a.reply.answer(c)
}

// reset deletes the histories of the key in every limit of the rules, of all kinds (R10, R12).
func (e *Engine) reset(ctx context.Context, c *engine.Call) {
	if err := ctx.Err(); err != nil {
		c.Fail(err)
		return
	}
	keys := e.keysOfAllKinds(c.Rules, &c.Key)
	_, err := e.eval(ctx, resetScript, keys, nil)
	e.cache.wrote(keys...)
	if err != nil {
		c.Fail(e.callError(ctx, err, c, keys, true))
	}
}

// order moves cached denials to the instant of an earlier call for the same histories (R1). The
// instant of a cached denial may be behind the server's clock by the time of a round trip. The
// server's clock has passed the instant of the earlier call, so the denial is valid there.
func (e *Engine) order(calls []engine.Call) {
	byInstant := func(a, b engine.Call) int { return a.Result.At.Compare(b.Result.At) }
	if slices.IsSortedFunc(calls, byInstant) {
		return
	}
	latest := map[string]time.Time{} // by the histories
	for i := range calls {
		c := &calls[i]
		d := &c.Result
		decides := c.Op <= engine.Record || c.Op == engine.Probe
		if c.Err != nil || !decides || c.Given || d.Replayed {
			continue
		}
		_, histories := e.keysOf(c.Rules, &c.Key)
		behind := latest[histories].Sub(d.At)
		switch {
		case behind <= 0:
			latest[histories] = d.At
		case d.Allowed:
		case d.RetryAfter == engine.Never:
			moveBy(d, behind)
		case behind < d.RetryAfter:
			moveBy(d, behind)
			d.RetryAfter -= behind
		}
	}
}

// moveBy moves the instant of a denial, from which its times count.
func moveBy(d *engine.Result, later time.Duration) {
	d.At = d.At.Add(later)
	d.ResetAfter = max(0, d.ResetAfter-later)
	d.Blocked = max(0, d.Blocked-later)
}

// trip collects the calls of one round trip.
type trip struct {
	e       *Engine
	ctx     context.Context
	calls   []*engine.Call
	answers []answer // to the calls
}

// answerFromCache answers a call with a cached denial, and reports whether it did. It does not
// if a call of the same policy waits for the trip, because that call may change the answer.
func (t *trip) answerFromCache(c *engine.Call) bool {
	if t.e.cache.size.Load() == 0 || !isPlainAttempt(c) {
		return false
	}
	for _, other := range t.calls {
		if other.Rules == c.Rules || other.Rules.Name == c.Rules.Name {
			return false
		}
	}
	return t.e.cache.latestDenial(c)
}

// isPlainAttempt reports whether a call is an attempt now, without an ID and states.
func isPlainAttempt(c *engine.Call) bool {
	return c.Op == engine.Attempt && !c.Given && c.ID == "" && c.States == nil
}

// add adds a call. If no more calls fit, it sends the collected ones before.
func (t *trip) add(c *engine.Call) {
	if len(t.calls) == maxRequests {
		t.send()
	}
	t.calls = append(t.calls, c)
	t.answers = append(t.answers, answer{request: t.e.newRequest(c)})
}

// send decides the collected calls.
func (t *trip) send() {
	if len(t.calls) == 0 {
		return
	}
	err := t.ctx.Err()
	if err == nil {
		t.e.callAll(t.ctx, t.answers)
	}
	for i, c := range t.calls {
		if err != nil {
			c.Fail(err)
			continue
		}
		t.e.finish(t.ctx, c, &t.answers[i])
	}
	t.calls, t.answers = t.calls[:0], t.answers[:0]
}

package conformance

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// tally counts the work of a run.
type tally struct {
	histories, attempts, granted, others int
	waits                                int // announced waits that were tried
}

func (a *tally) add(b tally) {
	a.histories += b.histories
	a.attempts += b.attempts
	a.granted += b.granted
	a.others += b.others
	a.waits += b.waits
}

// runDifferential applies random histories to engines and to the specification, in a few
// concurrent shards, until c.Attempts attempts were made or an answer differs.
func runDifferential(t *testing.T, newEngine func(t *testing.T) engine.Engine, c Config) {
	var mu sync.Mutex
	var total tally
	shards := min(runtime.GOMAXPROCS(0), 1+c.Attempts/4_000)
	t.Run("shards", func(t *testing.T) {
		for i := range shards {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				d := &differential{c: c, newEngine: func() engine.Engine { return newEngine(t) }, shard: i, shards: shards}
				if report := d.run((c.Attempts + shards - 1) / shards); report != "" {
					t.Fatal(report)
				}
				mu.Lock()
				defer mu.Unlock()
				total.add(d.tally)
			})
		}
	})
	t.Logf("seed %d: %d attempts (%d granted) and %d other steps in %d histories; %d announced waits tried on both sides",
		c.Seed, total.attempts, total.granted, total.others, total.histories, total.waits)
}

// differential is one shard: it applies every shards-th history.
type differential struct {
	c             Config
	newEngine     func() engine.Engine
	shard, shards int
	tally
}

// run applies histories one after the other to one engine. Each is later than the one
// before, so that no step needs a history that an engine has forgotten. A few are in 1970,
// beyond 2041, where instants need more than 51 bits, or around that instant, or at the end of
// time, in 2255. It returns a report of the first difference, or "".
func (d *differential) run(attempts int) string {
	const last, hour = weir.MaxInstant / 2, 3_600_000_000
	epoch, e := int64(defaultEpoch), d.newEngine()
	for d.attempts < attempts {
		r := rand.New(rand.NewPCG(d.c.Seed, uint64(d.shard+d.shards*d.histories)))
		g := newRandomHistory(r, d.c, epoch+r.Int64N(hour))
		far := farEpoch(r)
		if far > 0 {
			g.v.epoch, g.contract.epoch = far, far
			g.late = far > weir.MaxInstant-3*weir.MaxWindow.Microseconds()
		}
		if !d.play(g, e) {
			return d.report(g)
		}
		d.histories++
		if far > 0 {
			continue
		}
		if epoch = g.v.epoch + g.contract.high.Microseconds(); epoch > last {
			epoch, e = defaultEpoch, d.newEngine()
		}
	}
	return ""
}

// farEpoch returns an epoch out of order for a few histories, and 0 for the others.
func farEpoch(r *rand.Rand) int64 {
	const wide, hour = 1 << 51, 3_600_000_000 // in 2041
	switch r.IntN(40) {
	case 0:
		return weir.MaxInstant - r.Int64N(hour)
	case 1:
		return wide - r.Int64N(hour)
	case 2, 3:
		return wide + r.Int64N(weir.MaxInstant-wide)
	case 4:
		return 1 + r.Int64N(hour)
	}
	return 0
}

// play applies one history and reports whether all answers agreed.
func (d *differential) play(g *randomHistory, e engine.Engine) bool {
	g.v.write()
	want, got := validSession(d.c.spec(), g.v), validSession(e, g.v)
	for range 20 + g.r.IntN(100) {
		if !d.step(g, g.next(), want, got) {
			return false
		}
	}
	return true
}

// step applies s to both engines. It reports whether the answers agree and the announced
// wait is exact.
func (d *differential) step(g *randomHistory, s step, want, got *session) bool {
	if !s.callsEngine() {
		mustBeValid(want.apply(s))
		mustBeValid(got.apply(s))
		g.observe(s, answer{})
		return true
	}
	a := want.do(s)
	g.observe(s, a)
	d.count(s, a)
	return a.equal(got.do(s)) && d.tryWait(g, s, a, got)
}

func (d *differential) count(s step, a answer) {
	if s.op != opTake {
		d.others++
		return
	}
	d.attempts++
	if a.decision.Allowed {
		d.granted++
	}
}

// tryWait peeks at the end of the wait that s announced and a microsecond before it. The
// peeks become steps of the history, though they must change nothing (R4).
func (d *differential) tryWait(g *randomHistory, s step, a answer, got *session) bool {
	if g.r.IntN(3) > 0 {
		return true
	}
	before, after, ok := g.probes(s, a)
	if !ok {
		return true
	}
	d.waits++
	if a.decision.RetryAfter > 0 {
		g.v.steps = append(g.v.steps, before)
		if full(before, got.do(before)) {
			return false
		}
	}
	g.v.steps = append(g.v.steps, after)
	return full(after, got.do(after))
}

// full reports whether the answer grants all units of the step.
func full(s step, a answer) bool {
	return a.err == "" && a.decision.Allowed && a.decision.Granted == s.n
}

// report describes the difference with the shortest history that still shows it.
func (d *differential) report(g *randomHistory) string {
	short, m := reduce(g.v, func(v *vector) *mismatch { return differs(v, d.c.spec(), d.newEngine()) })
	var b strings.Builder
	fmt.Fprintf(&b, "the engine and the specification differ (seed %d, history %d of shard %d).\n", d.c.Seed, d.histories, d.shard)
	if m == nil {
		fmt.Fprintf(&b, "On a new engine they agree: look for state that leaks between policies,"+
			" or for randomness. The whole history, with the specification's answers:\n\n%s", g.v.text())
	} else {
		fmt.Fprintf(&b, "%s\nTo keep it, paste this into weirtest/testdata and name the rule in its first line:\n\n%s", m, short.text())
	}
	return b.String()
}

// differs applies v to a new specification, model, and to e, up to the first difference. It
// returns nil if there is none, or if a step is out of contract.
func differs(v *vector, model, e engine.Engine) *mismatch {
	if err := v.answers(model); err != nil || !inContract(v) {
		return nil
	}
	m, _ := v.run(e) // its policies are valid: the specification ran it
	return m
}

// inContract reports whether an engine must answer every step of v by the rules.
func inContract(v *vector) bool {
	rules, now := newContract(v.epoch), newPolicies(v)
	for _, s := range v.steps {
		if !s.callsEngine() {
			if now.apply(s) != nil {
				return false
			}
			continue
		}
		limits := now.current.current()
		if s.at < rules.floor() || rules.stale(limits, s) {
			return false
		}
		rules.observe(limits, now.current.mode, s, s.want)
	}
	return true
}

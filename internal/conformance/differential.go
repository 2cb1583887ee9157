package conformance

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spec"
)

// tally is what a differential has done.
type tally struct {
	histories, attempts, granted, others int
	waits                                int // announced waits tried on both sides
}

func (a *tally) add(b tally) {
	a.histories += b.histories
	a.attempts += b.attempts
	a.granted += b.granted
	a.others += b.others
	a.waits += b.waits
}

// runDifferential plays random histories on engines and on the specification, in
// a few shards at once, until so many attempts were made or an answer differs.
func runDifferential(t *testing.T, newEngine func(t *testing.T) weir.Engine, c Config) {
	var mu sync.Mutex
	var total tally
	shards := min(runtime.GOMAXPROCS(0), 1+c.Attempts/10_000)
	t.Run("shards", func(t *testing.T) {
		for i := range shards {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				d := &differential{c: c, newEngine: func() weir.Engine { return newEngine(t) }, shard: i, shards: shards}
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

// differential is one shard: it plays every shards-th history.
type differential struct {
	c             Config
	newEngine     func() weir.Engine
	shard, shards int
	tally
}

// run plays histories one after the other on one engine, each of them later than
// the one before, so that no step needs a history that an engine forgets by time. A few
// of them are at the end of time. It returns a report of the first difference, or "".
func (d *differential) run(attempts int) string {
	const last, hour = int64(weir.MaxUnits) / 2, 3_600_000_000
	epoch, engine := int64(defaultEpoch), d.newEngine()
	d.c.refundIDs = remembersRefunds(engine)
	for d.attempts < attempts {
		r := rand.New(rand.NewPCG(d.c.Seed, uint64(d.shard+d.shards*d.histories)))
		g := newGame(r, d.c, epoch+r.Int64N(hour))
		atTheEnd := r.IntN(40) == 0
		if atTheEnd {
			g.v.epoch = weir.MaxUnits - r.Int64N(hour)
		}
		if !d.play(g, engine) {
			return d.report(g)
		}
		d.histories++
		if atTheEnd {
			continue
		}
		if epoch = g.v.epoch + g.rules.high.Microseconds(); epoch > last {
			epoch, engine = defaultEpoch, d.newEngine()
		}
	}
	return ""
}

// play is one history. It reports whether the engine agreed throughout.
func (d *differential) play(g *game, engine weir.Engine) bool {
	g.v.write()
	want, err := newSession(spec.New(), g.v)
	mustBeRight(err)
	got, err := newSession(engine, g.v)
	mustBeRight(err)
	for range 20 + g.r.IntN(100) {
		if !d.step(g, g.next(), want, got) {
			return false
		}
	}
	return true
}

// mustBeRight panics if this package made a policy or a change that is wrong.
func mustBeRight(err error) {
	if err != nil {
		panic("weirtest: a random policy is wrong: " + err.Error())
	}
}

// step does s on both engines and reports whether they agree, and whether the
// announced wait is one.
func (d *differential) step(g *game, s step, want, got *session) bool {
	if !s.asks() {
		mustBeRight(want.turn(s))
		mustBeRight(got.turn(s))
		g.learn(s, answer{})
		return true
	}
	a := want.do(s)
	g.learn(s, a)
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

// tryWait tries the wait that s announced on the engine, on both sides. The two
// peeks become steps of the history, though they must change nothing (R4).
func (d *differential) tryWait(g *game, s step, a answer, got *session) bool {
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

// full reports whether the answer grants the step all it asked for.
func full(s step, a answer) bool {
	return a.err == "" && a.decision.Allowed && a.decision.Granted == s.n
}

// report says what differs, with the shortest history in which it still does.
func (d *differential) report(g *game) string {
	short, m := reduce(g.v, func(v *vector) *mismatch { return differs(v, d.newEngine()) })
	var b strings.Builder
	fmt.Fprintf(&b, "the engine and the specification differ (seed %d, history %d of shard %d).\n", d.c.Seed, d.histories, d.shard)
	if m == nil {
		fmt.Fprintf(&b, "On an engine that remembers nothing else they do not: look for state that leaks between policies,"+
			" or for chance. The whole history, with the specification's answers:\n\n%s", g.v.text())
	} else {
		fmt.Fprintf(&b, "%s\nTo keep it, paste this into weirtest/testdata and say which rule it is about:\n\n%s", m, short.text())
	}
	return b.String()
}

// differs plays v on a fresh specification and on e, up to the first difference.
// It returns nil when there is none, or when the steps are not in contract.
func differs(v *vector, e weir.Engine) *mismatch {
	if err := v.answers(spec.New()); err != nil || !inContract(v) {
		return nil
	}
	m, err := v.run(e)
	if err != nil {
		return nil
	}
	return m
}

// inContract reports whether an engine has to answer every step of v by the rules.
func inContract(v *vector) bool {
	rules, b := newContract(), v.books[0].clone()
	for _, s := range v.steps {
		if s.op == opChange {
			if b.change(s.words) != nil {
				return false
			}
			continue
		}
		limits := b.policy("").Limits
		if s.at < rules.floor() || rules.stale(limits, s) {
			return false
		}
		rules.note(limits, b.mode, s, s.want)
	}
	return true
}

package conformance

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// attemptsPerBatch is the number of attempts of the differential for each batch.
const attemptsPerBatch = 20

// batches applies random histories with batches of requests at one instant. The
// specification gets the same requests one after the other. batches returns a report of the
// first different answer, or "".
func batches(e engine.Engine, c Config) string {
	epoch := int64(defaultEpoch)
	for n, history := 0, 0; n < c.Attempts/attemptsPerBatch; history++ {
		r := rand.New(rand.NewPCG(c.Seed, 1<<35+uint64(history)))
		g := newRandomHistory(r, c, epoch)
		g.v.write()
		want, got := validSession(c.spec(), g.v), validSession(e, g.v)
		for range 20 {
			s := g.next()
			if !s.callsEngine() {
				mustBeValid(want.apply(s))
				mustBeValid(got.apply(s))
				g.observe(s, answer{})
				continue
			}
			batch := g.batchOf(s)
			answers := got.doAll(batch)
			n++
			for i := range batch {
				a := want.do(batch[i])
				g.observe(batch[i], a)
				if !a.equal(answers[i]) {
					return batchReport(c, history, want, batch, i, a, answers)
				}
			}
		}
		epoch = g.v.epoch + g.contract.high.Microseconds()
	}
	return ""
}

// batchOf returns a step that decides with a few others at its instant: for the same key and
// others, some with an idempotency key or states. Other steps are returned alone.
func (g *randomHistory) batchOf(s step) []step {
	batch := []step{s}
	if !s.decides() || s.readsOnly() || s.n == 0 || s.isDirect() {
		return batch
	}
	limits := g.policy.current()
	for range g.r.IntN(8) {
		next := step{op: []string{opTake, opTake, opTake, opPeek, opRecord}[g.r.IntN(5)], at: s.at, n: g.r.Int64N(4), states: g.r.IntN(3) == 0, key: s.key}
		if next.op == opRecord {
			next.n++ // a Call records 1 or more (R14)
		}
		if g.r.IntN(3) == 0 {
			next.key = g.keyOf(g.r.IntN(len(g.keys)))
		}
		if g.r.IntN(6) == 0 {
			next.id = fmt.Sprintf("batch %d", g.r.Uint32()%1000)
		}
		if !g.contract.stale(limits, next) {
			batch = append(batch, next)
		}
	}
	return batch
}

// doAll makes the steps of a batch in one call.
func (s *session) doAll(batch []step) []answer {
	answers := make([]answer, len(batch))
	if !batch[0].decides() || batch[0].n == 0 || batch[0].isDirect() {
		answers[0] = s.do(batch[0])
		return answers
	}
	calls := make([]weir.Call, len(batch))
	for i, st := range batch {
		r := weir.Request{N: st.n, At: s.instant(st.at), ID: st.id, MaxWait: st.wait}
		if st.states {
			r.States = make([]weir.LimitState, len(s.current.order))
		}
		calls[i] = weir.Call{Limiter: s.limiter, Key: keyOf(s.limiter, st.key), Op: requestOps[st.op], Request: r}
		if st.n == 0 && st.op == opTake { // a Call takes it as a peek only (R14)
			calls[i].Op = engine.Peek
		}
	}
	weir.DecideAll(context.Background(), calls)
	for i := range calls {
		c := &calls[i]
		var err error
		if answers[i], err = s.decided(c.Decision, c.Request.States, c.Err); err != nil {
			answers[i] = answer{err: errorWord(err)}
		}
	}
	return answers
}

// batchReport describes the difference of answer i.
func batchReport(c Config, history int, want *session, batch []step, i int, a answer, got []answer) string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, history %d: a batch and the sequence of its requests differ in request %d, under\n", c.Seed, history, i)
	for _, l := range want.current.policy("").Limits {
		fmt.Fprintf(&b, "  %+v\n", l)
	}
	for j := range batch {
		fmt.Fprintf(&b, "%d %s -> %s\n", j, batch[j].text(), got[j].text(batch[j], want.epoch))
	}
	fmt.Fprintf(&b, "want %s\n  %s", a.text(batch[i], want.epoch), quoteRule(1))
	return b.String()
}

// liveBatches decides batches by the engine's own clock in several goroutines, some requests
// with an idempotency key, and with many more units than fit. It returns a report unless exactly those that fit were granted. Nor
// may the instant of a request lie before that of an earlier one for the same key.
func liveBatches(e engine.Engine, c Config) string {
	const fit, size = 100, 16
	limiter, err := weir.New(weir.Policy{Name: freshPrefix() + "batches", Limits: []weir.Limit{
		{Name: "all", Max: fit, Window: time.Hour, By: []string{"k"}},
	}}, weir.WithEngine(e))
	if err != nil {
		return err.Error()
	}
	type result struct {
		granted [2]int64
		problem string
	}
	results := make(chan result)
	ids := c.claims(limiter.Compiled(), "id")
	for g := range c.Goroutines {
		go func() {
			var r result
			for n := range 8*fit/size/c.Goroutines + 1 {
				calls := make([]weir.Call, size)
				for i := range calls {
					calls[i] = weir.Call{Limiter: limiter, Key: weir.K(values[i%2]), Request: weir.Request{N: 1}}
					if ids && i%4 == 0 {
						calls[i].Request.ID = fmt.Sprint(g, " ", n, " ", i)
					}
				}
				weir.DecideAll(context.Background(), calls)
				for i := range calls {
					d := &calls[i].Decision
					if err := errors.Join(calls[i].Err, c.checkMark(d, weir.AllOrNothing, calls[i].Request.ID)); err != nil {
						r.problem = err.Error()
					} else if i > 1 && d.At.Before(calls[i-2].Decision.At) {
						r.problem = fmt.Sprintf("request %d of a batch is decided %v before request %d for the same key", i, calls[i-2].Decision.At.Sub(d.At), i-2)
					}
					r.granted[i%2] += d.Granted
				}
			}
			results <- r
		}()
	}
	var granted [2]int64
	for range c.Goroutines {
		r := <-results
		if granted[0], granted[1] = granted[0]+r.granted[0], granted[1]+r.granted[1]; r.problem != "" {
			err = fmt.Errorf("%s\n  %s", r.problem, quoteRule(1))
		}
	}
	switch {
	case err != nil:
		return err.Error()
	case granted != [2]int64{fit, fit}:
		return fmt.Sprintf("batches granted %d units of two keys, want %d of each\n  %s", granted, fit, quoteRule(1))
	}
	return ""
}

package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/weirtest"
)

// renders allows 100 a day and 10 at once for each user.
var renders = weir.Policy{Name: "renders", Limits: []weir.Limit{
	weir.PerDay(100, "user").Named("day"),
	weir.AtOnce(10, 30*time.Second, "user").Named("running"),
}}

// ofOutage are the modes that open reservations without the store.
var ofOutage = []engine.Outage{fallback.Allow, fallback.Share}

// reserve opens a reservation of n units for a user.
func (s *store) reserve(user string, r weir.Request) (*weir.Reservation, weir.Decision) {
	s.t.Helper()
	reservation, d, err := s.Reserve(ctx, weir.K(user), r)
	if err != nil || reservation == nil || !d.Allowed {
		s.t.Fatalf("%s reserves %+v: %+v, %v", user, r, d, err)
	}
	return reservation, d
}

// used returns the units that count in each limit, in the store or in the share.
func used(t *testing.T, l *weir.Limiter, user string) string {
	t.Helper()
	states := make([]weir.LimitState, len(l.Compiled().Limits))
	peek := weir.Call{Limiter: l, Key: weir.K(user), Op: engine.Peek, Request: weir.Request{States: states}}
	if _, err := peek.Do(ctx); err != nil {
		t.Fatal(err)
	}
	units := []int64{}
	for _, s := range states {
		units = append(units, s.Used)
	}
	return fmt.Sprint(units)
}

// TestReservationsOfAnOutage: a reservation that was opened without the store lives in the process.
// It is extended and settled there, once, also after the outage. The store never knows it.
func TestReservationsOfAnOutage(t *testing.T) {
	for _, mode := range ofOutage {
		for _, isBack := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newStore(t, renders, mode)
				in, _ := s.reserve("ann", weir.Request{N: 1})
				s.Break(weirtest.Down())
				s.fail(5)
				s.want(down)
				request := weir.Request{N: 2, ID: "a job", TTL: time.Minute}
				r, d := s.reserve("ann", request)
				if !d.Degraded || d.Replayed || r.Units() != 2 || time.Until(r.ExpiresAt()) != time.Minute {
					t.Fatalf("%v: %+v, %d units until %v", mode, d, r.Units(), r.ExpiresAt())
				}
				isHeld := mode == fallback.Share // Allow holds nothing
				assert.Equal(t, r.HeldUntil().IsZero(), !isHeld, "%v: held until %v", mode, r.HeldUntil())
				if isBack {
					s.Restore()
					time.Sleep(time.Second)
					mustAllow(t, s.Limiter, weir.K("bob"))
					s.want(up)
				}
				before := s.Calls()
				again, d := s.reserve("ann", request)
				if !d.Degraded || !d.Replayed || d.Granted != 2 || !again.ExpiresAt().Equal(r.ExpiresAt()) {
					t.Errorf("%v, repeated: %+v, until %v; want the first one until %v", mode, d, again.ExpiresAt(), r.ExpiresAt())
				}
				_, _, err := s.Reserve(ctx, weir.K("ann"), weir.Request{N: 3, ID: "a job", TTL: time.Minute})
				assert.Error(t, err, &weir.InputError{Field: "id"})
				time.Sleep(20 * time.Second)
				must.Do(t, r.Extend(ctx))
				assert.Equal(t, time.Until(r.ExpiresAt()), time.Minute, "%v: extended life", mode)
				d, err = r.Add(ctx, 40)
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed || d.Granted != 40 || !d.Degraded || r.Units() != 42 {
					t.Errorf("%v, 40 more: %+v, %d units", mode, d, r.Units())
				}
				must.Do(t, errors.Join(again.Commit(ctx, 12), r.Commit(ctx, 12)))
				assert.Error(t, r.Commit(ctx, 13), weir.ErrSettled)
				assert.Equal(t, s.Calls(), before, "%v: calls of the store", mode)
				s.Restore()
				time.Sleep(time.Second)
				must.Do(t, in.Commit(ctx, 1))
				assert.Equal(t, used(t, s.Limiter, "ann"), "[1 0]", "%v: in the store", mode)
			})
		}
	}
}

// TestShareCorrectsItsReservations: a settlement corrects the share, and ends its hold.
func TestShareCorrectsItsReservations(t *testing.T) {
	s := newStore(t, renders, fallback.Share, fallback.Instances(2)) // a share of 50 a day, and 5 at once
	s.Break(weirtest.Down())
	r, _ := s.reserve("ann", weir.Request{N: 5})
	assert.Equal(t, used(t, s.Limiter, "ann"), "[55 10]", "used, with the share of the other process")
	if r, d, err := s.Reserve(ctx, weir.K("ann"), weir.Request{N: 1}); r != nil || d.Allowed || err != nil {
		t.Errorf("a sixth: %+v, %v; want a denial", d, err)
	}
	d, err := r.Add(ctx, 46)
	if err != nil {
		t.Fatal(err)
	}
	if d.Allowed || d.Limit != "day" || d.Max != 100 {
		t.Errorf("46 more: %+v; want a denial by the limit of 100", d)
	}
	if _, err := r.Add(ctx, 20); err != nil {
		t.Fatal(err)
	}
	must.Do(t, r.Commit(ctx, 8))
	assert.Equal(t, used(t, s.Limiter, "ann"), "[58 5]", "used after the settlement")
}

// TestReservationOfAnOutageEnds: after its life a reservation of the process is ErrExpired, whether
// the store is back or not. In Share a hold that has ended is, too.
func TestReservationOfAnOutageEnds(t *testing.T) {
	for _, mode := range ofOutage {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, renders, mode)
			s.Break(weirtest.Down())
			request := weir.Request{N: 2, TTL: 40 * time.Second}
			short, _ := s.reserve("ann", request)
			long, _ := s.reserve("ann", weir.Request{N: 2})
			time.Sleep(30 * time.Second)
			if err := long.Done(ctx); errors.Is(err, weir.ErrExpired) != (mode == fallback.Share) {
				t.Errorf("%v: done after the hold: %v", mode, err)
			}
			time.Sleep(10 * time.Second)
			for _, isBack := range []bool{false, true} {
				assert.Error(t, short.Commit(ctx, 1), weir.ErrExpired)
				assert.Error(t, short.Extend(ctx), weir.ErrExpired)
				if !isBack {
					s.Restore()
					time.Sleep(time.Second)
				}
			}
		})
	}
}

// TestReservationsOfTheStoreWait: without the store no reservation of it is settled or extended, in
// any mode.
func TestReservationsOfTheStoreWait(t *testing.T) {
	for _, mode := range modes {
		s := newStore(t, renders, mode, fallback.FailureThreshold(0))
		r, _ := s.reserve("ann", weir.Request{N: 5})
		s.Break(weirtest.Down())
		if mode != fallback.Deny {
			s.reserve("ann", weir.Request{N: 1}) // so that the process has some of its own
		}
		_, err := r.Add(ctx, 1)
		for _, err := range []error{err, r.Extend(ctx), r.Done(ctx), r.Cancel(ctx), r.Commit(ctx, 7)} {
			assert.Error(t, err, weir.ErrUnavailable)
		}
		s.Restore()
		if _, err := r.Add(ctx, 1); err != nil {
			t.Fatal(err)
		}
		must.Do(t, errors.Join(r.Extend(ctx), r.Commit(ctx, 7)))
		assert.Equal(t, used(t, s.Limiter, "ann"), "[7 0]", "%v: in the store", mode)
	}
}

// TestNoReservationWithoutTheStore: Deny opens none, and one of another process is unknown.
func TestNoReservationWithoutTheStore(t *testing.T) {
	s := newStore(t, renders, fallback.Deny)
	s.Break(weirtest.Down())
	r, d, err := s.Reserve(ctx, weir.K("ann"), weir.Request{N: 1})
	assert.Error(t, err, weir.ErrUnavailable)
	if r != nil || d != (weir.Decision{}) {
		t.Errorf("Deny reserved %v, %+v", r, d)
	}
	for _, mode := range ofOutage {
		here := newStore(t, renders, mode)
		there := newLimiter(t, renders, weir.WithEngine(fallback.New(here.faulty, mode)))
		here.Break(weirtest.Down())
		r, _ := here.reserve("ann", weir.Request{N: 1})
		here.Restore()
		other, err := there.Reservation(weir.K("ann"), r.ID())
		if err != nil {
			t.Fatal(err)
		}
		assert.Error(t, other.Commit(ctx, 1), weir.ErrExpired)
		must.Do(t, r.Commit(ctx, 1))
	}
}

// TestAnswersAboutReservationsAreNoFailures: ErrSettled and ErrExpired are answers of the store. They
// reach the caller in every mode.
func TestAnswersAboutReservationsAreNoFailures(t *testing.T) {
	for _, mode := range modes {
		s := newStore(t, renders, mode, fallback.FailureThreshold(1))
		r, _ := s.reserve("ann", weir.Request{N: 5})
		must.Do(t, r.Commit(ctx, 3))
		unknown, err := s.Reservation(weir.K("ann"), "unknown")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			assert.Error(t, r.Commit(ctx, 4), weir.ErrSettled)
			assert.Error(t, unknown.Extend(ctx), weir.ErrExpired)
		}
		s.want(up)
		assert.Equal(t, s.fallback.Status().Failures, 0, "%v: failures", mode)
	}
}

// TestUnansweredChangesAreInDoubt: an error without a statement about an operation that may have
// changed the store is ErrOutcomeUnknown, also of 0 units.
func TestUnansweredChangesAreInDoubt(t *testing.T) {
	s := newStore(t, renders, fallback.Deny, fallback.FailureThreshold(0))
	r, _ := s.reserve("ann", weir.Request{N: 5})
	s.Break(func(context.Context, func()) error { return errors.New("cut") })
	probe := weir.Call{Limiter: s.Limiter, Key: weir.K("ann"), Op: engine.Probe, Request: weir.Request{N: 1}}
	errorOf := func(_ any, err error) error { return err }
	for name, err := range map[string]error{
		"cancel": r.Cancel(ctx),
		"done":   r.Done(ctx),
		"extend": r.Extend(ctx),
		"add":    errorOf(r.Add(ctx, 1)),
		"block":  errorOf(s.Block(ctx, weir.K("ann"), time.Minute)),
		"probe":  errorOf(probe.Do(ctx)),
	} {
		t.Log(name)
		assert.Error(t, err, weir.ErrOutcomeUnknown)
	}
	_, err := s.Peek(ctx, weir.K("ann"), 1)
	assert.Error(t, err, weir.ErrUnavailable)
}

// TestBlocksDuringAnOutage: a fallback begins no block, does not know those of the store, and cannot
// block a key. A probe is a peek.
func TestBlocksDuringAnOutage(t *testing.T) {
	p := weir.Policy{Name: "login", Limits: []weir.Limit{weir.PerMinute(4, "user").Blocking(time.Hour)}}
	for _, mode := range ofOutage {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, p, mode, fallback.Instances(2), fallback.FailureThreshold(0))
			user := weir.K("ann")
			if _, err := s.Block(ctx, user, time.Minute); err != nil {
				t.Fatal(err)
			}
			s.Break(weirtest.Down())
			decide := func(op engine.Op, n int64) weir.Decision {
				t.Helper()
				c := weir.Call{Limiter: s.Limiter, Key: user, Op: op, Request: weir.Request{N: n}}
				decision, err := c.Do(ctx)
				if err != nil {
					t.Fatal(err)
				}
				return decision
			}
			if d := decide(engine.Attempt, 2); !d.Allowed || d.Blocked != 0 {
				t.Errorf("%v: during a block of the store: %+v", mode, d)
			}
			for _, op := range []engine.Op{engine.Probe, engine.Attempt, engine.Probe} {
				d := decide(op, 5) // more than the limit and its share
				if d.Allowed || d.Blocked != 0 || !d.Degraded {
					t.Errorf("%v: operation %d of 5: %+v; want a denial that blocks nothing", mode, op, d)
				}
			}
			_, err := s.Block(ctx, user, time.Minute)
			assert.Error(t, err, weir.ErrUnavailable)
			time.Sleep(time.Minute)
			if d := decide(engine.Probe, 2); !d.Allowed || d.Granted != 2 {
				t.Errorf("%v: a probe with room: %+v", mode, d)
			}
			s.Restore()
			if d := decide(engine.Attempt, 4); !d.Allowed || d.Degraded {
				t.Errorf("%v: the store afterwards: %+v; want no block and no units", mode, d)
			}
		})
	}
}

package weir_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// model returns a limiter of the tokens of a language model.
func model(mode weir.Mode, opts ...weir.Option) *weir.Limiter {
	return must(weir.New(weir.Policy{Name: "model", Mode: mode, Limits: []weir.Limit{
		{Name: "minute", Max: 1000, Window: time.Minute, By: []string{"tenant"}},
		{Name: "hour", Max: 5000, Window: time.Hour, By: []string{"tenant"}},
	}}, opts...))
}

var acme = weir.K("acme")

// reserve reserves n units, which must be granted.
func reserve(t *testing.T, l *weir.Limiter, n int64) *weir.Reservation {
	t.Helper()
	return reserveFor(t, l, weir.Request{N: n})
}

// reserveFor is reserve for a request.
func reserveFor(t *testing.T, l *weir.Limiter, request weir.Request) *weir.Reservation {
	t.Helper()
	r, d, err := l.Reserve(ctx, acme, request)
	if err != nil || r == nil || r.Units() != d.Granted || !d.Allowed {
		t.Fatalf("%+v: %+v, %v", request, d, err)
	}
	return r
}

// TestFirstReservationOfTheDocs: the first request of docs/reservations.md works with the commonest
// policy, a limit per minute. The error of a longer time to live names the right one.
func TestFirstReservationOfTheDocs(t *testing.T) {
	l := must(weir.New(weir.Policy{Name: "model", Limits: []weir.Limit{weir.PerMinute(1000, "tenant")}}))
	page := read(t, "docs/reservations.md")
	first := regexp.MustCompile(`weir\.Request\{N: (\d+)(?:, TTL: (\d+) \* time\.Minute)?\}`).FindStringSubmatch(page)
	if first == nil {
		t.Fatal("docs/reservations.md has no request")
	}
	n, _ := strconv.ParseInt(first[1], 10, 64)
	minutes, _ := strconv.ParseInt("0"+first[2], 10, 64)
	reserveFor(t, l, weir.Request{N: n, TTL: time.Duration(minutes) * time.Minute})
	_, _, err := l.Reserve(ctx, acme, weir.Request{N: 1, TTL: 5 * time.Minute})
	if want := "lasts 1µs to 1m0s, its longest window; leave TTL out for 1m0s"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want …%s", err, want)
	}
}

// wantError compares the error of a settlement; want is nil if it must succeed.
func wantError(t *testing.T, about string, err, want error) {
	t.Helper()
	assert.Equal(t, errors.Is(err, want), true, "%s: %v is %v", about, err, want)
}

// wantUsed compares the units that count now in each limit.
func wantUsed(t *testing.T, l *weir.Limiter, want ...int64) {
	t.Helper()
	states := make([]weir.LimitState, len(want))
	must((&weir.Call{Limiter: l, Key: acme, Op: engine.Peek, Request: weir.Request{N: 1, States: states}}).Do(ctx))
	for i, s := range states {
		assert.Equal(t, s.Used, want[i], "units of limit %s", s.Name)
	}
}

// TestReservation: unused units are refunded at the instant of the grant; units beyond the
// reservation are recorded at the instant of the settlement.
func TestReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := model(weir.AllOrNothing)
		less, more, none, same := reserve(t, l, 400), reserve(t, l, 300), reserve(t, l, 200), reserve(t, l, 100)
		if r, d, err := l.Reserve(ctx, acme, weir.Request{N: 1}); r != nil || d.Allowed || err != nil {
			t.Errorf("without room: %v, %+v, %v; want a denial and no reservation", r, d, err)
		}
		time.Sleep(30 * time.Second)
		wantError(t, "all", errors.Join(less.Commit(ctx, 150), more.Commit(ctx, 1500), none.Cancel(ctx), same.Commit(ctx, 100)), nil)
		wantUsed(t, l, 150+1500+0+100, 1750)
		time.Sleep(30*time.Second - time.Microsecond)
		wantUsed(t, l, 1750, 1750)
		time.Sleep(time.Microsecond)
		wantUsed(t, l, 1200, 1750) // what was recorded on settling counts from then on
		time.Sleep(30 * time.Second)
		wantUsed(t, l, 0, 1750)
	})
}

// TestReservationSettlesOnce: of several concurrent settlements one succeeds.
func TestReservationSettlesOnce(t *testing.T) {
	l := model(weir.AllOrNothing)
	r := reserve(t, l, 500)
	var all sync.WaitGroup
	var settled, rejected atomic.Int64
	for range 16 {
		all.Go(func() {
			if err := r.Commit(ctx, 400); err == nil {
				settled.Add(1)
			} else if errors.Is(err, weir.ErrSettled) {
				rejected.Add(1)
			}
		})
	}
	all.Wait()
	assert.Equal(t, fmt.Sprint(settled.Load(), rejected.Load()), "1 15", "settlements, and those with ErrSettled")
	wantUsed(t, l, 400, 400)
}

// TestReservationExpires: after its time to live no unit is refunded, and the units leave
// with their windows.
func TestReservationExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := model(weir.AllOrNothing)
		short := reserveFor(t, l, weir.Request{N: 300, TTL: 10 * time.Second})
		long := reserve(t, l, 300)
		time.Sleep(10*time.Second - 1)
		wantError(t, "before its time is over", reserveFor(t, l, weir.Request{N: 1, TTL: time.Second}).Cancel(ctx), nil)
		time.Sleep(time.Nanosecond)
		for _, err := range []error{short.Commit(ctx, 0), short.Commit(ctx, 900), short.Cancel(ctx)} {
			wantError(t, "after 10s", err, weir.ErrExpired)
		}
		wantUsed(t, l, 600, 600)
		time.Sleep(time.Hour - 10*time.Second - 1)
		wantUsed(t, l, 0, 600)
		wantError(t, "a moment before the longest window is over", long.Cancel(ctx), nil)
		wantUsed(t, l, 0, 300)
		time.Sleep(time.Nanosecond)
		wantUsed(t, l, 0, 0)
		wantError(t, "settled and expired", long.Cancel(ctx), weir.ErrSettled)
	})
}

// TestReservationLastsFromItsDecision: the time to live begins with the decision of the store,
// not with the request or the answer, and with the first decision for a repeated ID.
func TestReservationLastsFromItsDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := model(weir.AllOrNothing, weir.WithEngine(&slow{weir.NewMemory(), engine.Attempt, time.Second, time.Second}))
		reserve := func(id string) *weir.Reservation {
			return reserveFor(t, l, weir.Request{N: 1, TTL: 10 * time.Second, ID: id})
		}
		in, late := reserve("a"), reserve("b") // decided after 1s and 3s
		again := reserve("a")
		time.Sleep(5*time.Second - 1) // just below 11s
		wantError(t, "before its time is over", in.Cancel(ctx), nil)
		time.Sleep(time.Nanosecond)
		wantError(t, "10s after the first decision for its ID", again.Cancel(ctx), weir.ErrExpired)
		time.Sleep(2 * time.Second)
		wantError(t, "10s after its decision", late.Cancel(ctx), weir.ErrExpired)
	})
}

// TestReservationModes: a partial grant is a reservation of that part; a denial is none.
func TestReservationModes(t *testing.T) {
	l := model(weir.Partial)
	first, second := reserve(t, l, 900), reserve(t, l, 900)
	assert.Equal(t, second.Units(), 100, "units of the second, which were left")
	wantError(t, "both", errors.Join(first.Cancel(ctx), second.Commit(ctx, 120)), nil)
	wantUsed(t, l, 120, 120)

	l = model(weir.CountDenied)
	first = reserve(t, l, 900)
	if r, d, err := l.Reserve(ctx, acme, weir.Request{N: 200}); r != nil || d.Allowed || err != nil {
		t.Errorf("denied: %v, %+v, %v", r, d, err)
	}
	wantError(t, "cancel", first.Cancel(ctx), nil)
	wantUsed(t, l, 200, 200) // the denied attempt counts, as ever in this mode
}

// TestReservationBadInput: bad input reserves and settles nothing (R14).
func TestReservationBadInput(t *testing.T) {
	l := model(weir.AllOrNothing)
	now := time.Now()
	for _, c := range []struct {
		limiter *weir.Limiter
		key     weir.Key
		request weir.Request
		field   string
	}{
		{l, acme, weir.Request{N: 1, TTL: -1}, "ttl"},
		{l, acme, weir.Request{N: 1, TTL: time.Hour + 1}, "ttl"},
		{farm(), acme, weir.Request{N: 1, TTL: time.Minute - 1}, "ttl"}, // it would end before its hold
		{l, acme, weir.Request{N: -1}, "units"},
		{l, weir.K("a", "b"), weir.Request{N: 1}, "key"},
		{l, acme, weir.Request{}, "units"},
		{l, acme, weir.Request{N: 1, At: now}, "instant"},
		{l.At(now), acme, weir.Request{N: 1}, "instant"},
	} {
		if r, d, err := c.limiter.Reserve(ctx, c.key, c.request); !errors.Is(err, &weir.InputError{Field: c.field}) || r != nil || d != (weir.Decision{}) {
			t.Errorf("%+v: %v, %+v, %v; want bad input of %s", c.request, r, d, err, c.field)
		}
	}
	r := reserve(t, l, 10)
	wantError(t, "-1 units used", r.Commit(ctx, -1), &weir.InputError{Field: "units"})
	wantError(t, "after bad input", r.Commit(ctx, 0), nil)
	wantUsed(t, l, 0, 0)
}

// TestReservationInDoubt: a settlement whose answer was lost, repeated with the same number,
// corrects once, whether the first correction was made or not.
func TestReservationInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		fault  weirtest.Fault
		actual int64
	}{"refund made": {weirtest.Lost(), 3}, "record made": {weirtest.Lost(), 25}, "refund not made": {unsure, 3}, "record not made": {unsure, 25}} {
		store := weirtest.NewFaulty(weir.NewMemory())
		l := model(weir.AllOrNothing, weir.WithEngine(fallback.New(store, fallback.Deny, fallback.FailureThreshold(0))))
		r := reserve(t, l, 10)
		store.Break(c.fault)
		for range 2 {
			wantError(t, name, r.Commit(ctx, c.actual), weir.ErrOutcomeUnknown)
		}
		store.Restore()
		wantError(t, name+", by other units", r.Commit(ctx, 4), weir.ErrSettled)
		wantError(t, name+", again", r.Commit(ctx, c.actual), nil)
		wantError(t, name+", when it is settled", r.Commit(ctx, c.actual), weir.ErrSettled)
		wantUsed(t, l, c.actual, c.actual)
	}
}

// TestReservationInDoubtByID: a reservation whose answer was lost is repeated with its id and
// charged once. Settlements of both reservations with the same number are made once.
func TestReservationInDoubtByID(t *testing.T) {
	store := weirtest.NewFaulty(weir.NewMemory())
	l := model(weir.AllOrNothing, weir.WithEngine(fallback.New(store, fallback.Deny, fallback.FailureThreshold(0))))
	request := weir.Request{N: 10, ID: "an answer"}
	store.Break(weirtest.Lost())
	if r, _, err := l.Reserve(ctx, acme, request); r != nil || !errors.Is(err, weir.ErrOutcomeUnknown) {
		t.Fatalf("a lost answer: %v, %v; want ErrOutcomeUnknown", r, err)
	}
	store.Restore()
	var both [2]*weir.Reservation
	for i := range both {
		r, d, err := l.Reserve(ctx, acme, request)
		if err != nil || r == nil || r.Units() != 10 || !d.Replayed {
			t.Fatalf("repeated: %+v, %v; want the first grant", d, err)
		}
		both[i] = r
	}
	wantUsed(t, l, 10, 10)
	for _, r := range both {
		wantError(t, "commit", r.Commit(ctx, 25), nil)
	}
	wantUsed(t, l, 25, 25)
	third := reserveFor(t, l, request)
	wantError(t, "a settlement with another number", third.Commit(ctx, 24), weir.ErrSettled)
	wantUsed(t, l, 25, 25)
	wantError(t, "and then with the same", third.Commit(ctx, 25), nil)
	wantUsed(t, l, 25, 25)
}

// TestReservationOfAReusedID: after the life of an ID its next reservation is settled on its own,
// while the later settlement of the first use is still remembered.
func TestReservationOfAReusedID(t *testing.T) {
	for actual, second := range map[int64]int64{1: 1, 2: 2, 7: 5 + 7} { // of the first use the 5 that were recorded later count
		synctest.Test(t, func(t *testing.T) {
			l := farm()
			use := func(lasts time.Duration, used int64) {
				r := reserveFor(t, l, weir.Request{N: 2, ID: "daily report"})
				time.Sleep(lasts)
				wantError(t, "extend", r.Extend(ctx), nil)
				wantError(t, "commit", r.Commit(ctx, actual), nil)
				wantUsed(t, l, used, 0, 0)
			}
			use(20*time.Second, actual)
			time.Sleep(24*time.Hour - 20*time.Second)
			use(10*time.Second, second)
		})
	}
}

// unsure is a store that loses calls and answers.
func unsure(context.Context, func()) error { return fmt.Errorf("%w: cut", weir.ErrOutcomeUnknown) }

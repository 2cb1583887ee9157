package weir_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
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
	"github.com/weirlimit/weir/internal/lifetime"
	"github.com/weirlimit/weir/internal/testkit/assert"
	kit "github.com/weirlimit/weir/internal/testkit/must"
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
	page := string(must(os.ReadFile("docs/reservations.md")))
	first := regexp.MustCompile(`weir\.Request\{N: (\d+)(?:, TTL: (\d+) \* time\.Minute)?\}`).FindStringSubmatch(page)
	if first == nil {
		t.Fatal("docs/reservations.md has no request")
	}
	n, _ := strconv.ParseInt(first[1], 10, 64)
	minutes, _ := strconv.ParseInt("0"+first[2], 10, 64)
	reserveFor(t, l, weir.Request{N: n, TTL: time.Duration(minutes) * time.Minute})
	_, _, err := l.Reserve(ctx, acme, weir.Request{N: 1, TTL: 5 * time.Minute})
	want := "lasts 1µs to 1m0s, its longest window; leave TTL out for 1m0s"
	assert.Error(t, err, &weir.InputError{Field: "ttl"}, want)
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

// TestReservationSettlesOnce: of concurrent settlements one number is made, once. Those with the
// same number succeed, those with another one do not.
func TestReservationSettlesOnce(t *testing.T) {
	l := model(weir.AllOrNothing)
	r := reserve(t, l, 500)
	var all sync.WaitGroup
	var settled, rejected [2]atomic.Int64
	for i := range 16 {
		all.Go(func() {
			switch err := r.Commit(ctx, int64(400+i%2)); {
			case err == nil:
				settled[i%2].Add(1)
			case errors.Is(err, weir.ErrSettled):
				rejected[i%2].Add(1)
			}
		})
	}
	all.Wait()
	made := int64(400)
	if settled[1].Load() > 0 {
		made = 401
	}
	got := fmt.Sprint(settled[made-400].Load(), rejected[401-made].Load())
	assert.Equal(t, got, "8 8", "settlements with %d, and rejected ones with the other number", made)
	wantUsed(t, l, made, made)
}

// TestReservationExpires: after its time to live no unit is refunded, and the units leave with
// their windows. A settlement is repeated for a minute after it.
func TestReservationExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := model(weir.AllOrNothing)
		short := reserveFor(t, l, weir.Request{N: 300, TTL: 10 * time.Second})
		long := reserve(t, l, 300)
		assert.Equal(t, time.Until(short.ExpiresAt()), 10*time.Second, "life of the short one")
		assert.Equal(t, time.Until(long.ExpiresAt()), time.Hour, "life without a TTL")
		time.Sleep(10*time.Second - 1)
		wantError(t, "before its time is over", reserveFor(t, l, weir.Request{N: 1, TTL: time.Second}).Cancel(ctx), nil)
		time.Sleep(time.Nanosecond)
		for _, err := range []error{short.Commit(ctx, 0), short.Commit(ctx, 900), short.Cancel(ctx), short.Extend(ctx)} {
			wantError(t, "after 10s", err, weir.ErrExpired)
		}
		wantUsed(t, l, 600, 600)
		time.Sleep(time.Hour - 10*time.Second - 1)
		wantUsed(t, l, 0, 600)
		wantError(t, "a moment before the longest window is over", long.Cancel(ctx), nil)
		wantUsed(t, l, 0, 300)
		time.Sleep(time.Minute - time.Microsecond)
		wantError(t, "again after its end", long.Cancel(ctx), nil)
		wantError(t, "with another number", long.Commit(ctx, 300), weir.ErrSettled)
		wantUsed(t, l, 0, 0)
	})
}

// TestReservationLastsFromItsDecision: the time to live begins with the decision of the store,
// not with the request or the answer, and with the first decision for a repeated ID.
func TestReservationLastsFromItsDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		store := &slow{weir.NewMemory(), engine.Attempt, time.Second, time.Second}
		l := model(weir.AllOrNothing, weir.WithEngine(store))
		reserve := func(id string, ttl time.Duration) *weir.Reservation {
			return reserveFor(t, l, weir.Request{N: 1, TTL: ttl, ID: id})
		}
		in, late := reserve("a", 10*time.Second), reserve("b", 10*time.Second) // decided after 1s and 3s
		again := reserve("a", time.Minute)
		for name, r := range map[string]*weir.Reservation{"first": in, "repeated": again} {
			assert.Equal(t, r.ExpiresAt().Sub(began), 11*time.Second, "end of the %s one", name)
		}
		time.Sleep(5 * time.Second) // until 11s
		wantError(t, "10s after the first decision for its ID", again.Cancel(ctx), weir.ErrExpired)
		time.Sleep(2*time.Second - 1)
		wantError(t, "before its time is over", late.Cancel(ctx), nil)
	})
}

// TestReservationOfARequest: a reservation of weirhttp and weirgrpc lives as long as the longest hold
// or, without one, for five minutes at most. So few of them are remembered.
func TestReservationOfARequest(t *testing.T) {
	perMinute := weir.Policy{Name: "short", Limits: []weir.Limit{weir.PerMinute(9, "tenant")}}
	for name, c := range map[string]struct {
		limiter *weir.Limiter
		want    time.Duration
	}{
		"holds of 30s and 1m":    {farm(), time.Minute},
		"a window of an hour":    {model(weir.AllOrNothing), 5 * time.Minute},
		"a window of one minute": {must(weir.New(perMinute)), time.Minute},
	} {
		r, d, err := c.limiter.Reserve(ctx, acme, weir.Request{N: 1, TTL: lifetime.OfRequest})
		kit.Do(t, err)
		assert.Equal(t, r.ExpiresAt().Sub(d.At), c.want, "life with %s", name)
	}
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
	wantError(t, "too many units used", r.Commit(ctx, weir.MaxUnits+1), &weir.InputError{Field: "units"})
	for _, n := range []int64{0, -1, weir.MaxUnits, weir.MaxUnits + 1, math.MaxInt64} {
		wantError(t, fmt.Sprint(n, " more units"), second(r.Add(ctx, n)), &weir.InputError{Field: "units"})
	}
	wantError(t, "after bad input", r.Commit(ctx, 0), nil)
	wantUsed(t, l, 0, 0)
}

// TestHandleOfBadInput: a wrong key or id is an error before any call of the engine (R14).
func TestHandleOfBadInput(t *testing.T) {
	l := model(weir.AllOrNothing)
	for _, c := range []struct {
		limiter *weir.Limiter
		key     weir.Key
		id      string
		field   string
	}{
		{l, acme, "", "id"},
		{l, acme, strings.Repeat("x", weir.MaxIDBytes+1), "id"},
		{l, weir.K(), "a", "key"},
		{l, weir.K(""), "a", "key"},
		{l.At(time.Now()), acme, "a", "instant"},
	} {
		if r, err := c.limiter.Reservation(c.key, c.id); r != nil || !errors.Is(err, &weir.InputError{Field: c.field}) {
			t.Errorf("%q of %v: %v, %v; want bad input of %s", c.id, c.key, r, err, c.field)
		}
	}
}

// TestReservationOfAnotherProcess: whoever knows policy, key and ID can settle a reservation. An
// unknown one is ErrExpired.
func TestReservationOfAnotherProcess(t *testing.T) {
	store := weir.NewMemory()
	here, there := model(weir.AllOrNothing, weir.WithEngine(store)), model(weir.AllOrNothing, weir.WithEngine(store))
	opened := reserve(t, here, 600)
	r := must(there.Reservation(acme, opened.ID()))
	assert.Equal(t, r.ID(), opened.ID(), "its ID")
	if r.Units() != 0 || !r.ExpiresAt().IsZero() || !r.HeldUntil().IsZero() {
		t.Errorf("before an answer: %d units until %v", r.Units(), r.ExpiresAt())
	}
	wantError(t, "extend", r.Extend(ctx), nil)
	assert.Equal(t, r.Units(), 600, "units after an answer")
	wantError(t, "commit", r.Commit(ctx, 250), nil)
	wantError(t, "another number", opened.Cancel(ctx), weir.ErrSettled)
	wantError(t, "the same number", opened.Commit(ctx, 250), nil)
	wantUsed(t, here, 250, 250)
	for name, r := range map[string]*weir.Reservation{
		"key": must(there.Reservation(weir.K("globex"), opened.ID())),
		"id":  must(there.Reservation(acme, opened.ID()+"x")),
	} {
		for _, err := range []error{r.Done(ctx), r.Commit(ctx, 1), r.Extend(ctx), second(r.Add(ctx, 1))} {
			wantError(t, "another "+name, err, weir.ErrExpired)
		}
	}
	wantUsed(t, here, 250, 250)
}

// TestReservationsHaveRandomIDs: without an ID a reservation has one of its own that cannot be
// guessed: 26 letters and digits, 130 random bits.
func TestReservationsHaveRandomIDs(t *testing.T) {
	l := model(weir.AllOrNothing)
	seen := map[string]bool{}
	for range 100 {
		id := reserve(t, l, 1).ID()
		if seen[id] || len(id) < 26 {
			t.Fatalf("the id %q is not new, or short", id)
		}
		seen[id] = true
	}
	assert.Equal(t, reserveFor(t, l, weir.Request{N: 1, ID: "job 7"}).ID(), "job 7", "an ID of the caller")
}

// TestEachMethodIsOneCall: a reservation, a settlement, an extension and a block are one call of
// the engine each, and a handle is none.
func TestEachMethodIsOneCall(t *testing.T) {
	calls := 0
	counting := func(context.Context, *engine.Call, time.Duration) { calls++ }
	store := weir.NewMemory()
	for name, l := range map[string]*weir.Limiter{
		"model": model(weir.AllOrNothing, weir.WithEngine(weir.Observe(store, counting))),
		"farm":  farm(weir.WithEngine(weir.Observe(store, counting))),
	} {
		wantCalls := func(want int, what string, call func() error) {
			t.Helper()
			calls = 0
			wantError(t, name+": "+what, call(), nil)
			assert.Equal(t, calls, want, "%s: calls of the engine for %s", name, what)
		}
		var r *weir.Reservation
		open := func(id string) func() error {
			return func() (err error) {
				r, _, err = l.Reserve(ctx, acme, weir.Request{N: 2, ID: id})
				return err
			}
		}
		wantCalls(1, "Reserve", open("a"))
		wantCalls(1, "Reserve again", open("a"))
		wantCalls(0, "Reservation", func() error { return second(l.Reservation(acme, "a")) })
		wantCalls(1, "Extend", func() error { return r.Extend(ctx) })
		wantCalls(1, "Add", func() error { return second(r.Add(ctx, 3)) })
		wantCalls(1, "Commit", func() error { return r.Commit(ctx, 1) })
		wantCalls(1, "Commit again", func() error { return r.Commit(ctx, 1) })
		wantCalls(1, "Reserve", open("b"))
		wantCalls(1, "Done", func() error { return r.Done(ctx) })
		wantCalls(1, "Reserve", open("c"))
		wantCalls(1, "Cancel", func() error { return r.Cancel(ctx) })
		wantCalls(1, "Block", func() error { return second(l.Block(ctx, acme, time.Minute)) })
		wantCalls(1, "the end of a block", func() error { return second(l.Block(ctx, acme, 0)) })
	}
}

// TestReservationInDoubt: a settlement whose answer was lost, repeated with the same number,
// corrects once, whether the first correction was made or not.
func TestReservationInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		fault  weirtest.Fault
		actual int64
		other  error // of another number afterwards
	}{
		"refund made":     {weirtest.Lost(), 3, weir.ErrSettled},
		"record made":     {weirtest.Lost(), 25, weir.ErrSettled},
		"done made":       {weirtest.Lost(), 10, weir.ErrSettled},
		"refund not made": {unsure, 3, nil},
		"record not made": {unsure, 25, nil},
	} {
		store := weirtest.NewFaulty(weir.NewMemory())
		l := model(weir.AllOrNothing, weir.WithEngine(fallback.New(store, fallback.Deny, fallback.FailureThreshold(0))))
		r := reserve(t, l, 10)
		store.Break(c.fault)
		for range 2 {
			wantError(t, name, r.Commit(ctx, c.actual), weir.ErrOutcomeUnknown)
		}
		store.Restore()
		if c.other != nil {
			wantError(t, name+", by other units", r.Commit(ctx, 4), c.other)
		}
		for range 2 {
			wantError(t, name+", again", r.Commit(ctx, c.actual), nil)
		}
		wantError(t, name+", by other units", r.Commit(ctx, 4), weir.ErrSettled)
		wantUsed(t, l, c.actual, c.actual)
	}
}

// TestReservationInDoubtByID: a reservation whose answer was lost is repeated with its id and
// charged once. Both handles are of one reservation.
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
	third := reserveFor(t, l, request) // also after its settlement
	wantError(t, "a settlement with another number", third.Commit(ctx, 24), weir.ErrSettled)
	wantError(t, "and then with the same", third.Commit(ctx, 25), nil)
	wantUsed(t, l, 25, 25)
	other, _, err := l.Reserve(ctx, acme, weir.Request{N: 11, ID: "an answer"})
	if other != nil {
		t.Errorf("other units: %v; want no reservation", other)
	}
	wantError(t, "other units", err, &weir.InputError{Field: "id"})
	_, err = l.AllowOnce(ctx, acme, 10, "an answer")
	wantError(t, "an attempt without a time to live", err, &weir.InputError{Field: "id"})
}

// TestReservationOfAReusedID: an ID is remembered for the life of its reservation, and for a minute
// after its settlement. Then it opens another one.
func TestReservationOfAReusedID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := farm()
		request := weir.Request{N: 2, ID: "daily report", TTL: time.Minute}
		r := reserveFor(t, l, request)
		time.Sleep(20 * time.Second)
		wantError(t, "commit", r.Commit(ctx, 7), nil)
		time.Sleep(time.Minute - time.Microsecond)
		again := reserveFor(t, l, request)
		assert.Equal(t, again.ExpiresAt(), r.ExpiresAt(), "end of the remembered one")
		time.Sleep(time.Microsecond)
		next := reserveFor(t, l, request)
		assert.Equal(t, time.Until(next.ExpiresAt()), time.Minute, "life of the next one")
		wantError(t, "commit of the next one", next.Commit(ctx, 1), nil)
		wantUsed(t, l, 7+1, 0, 0)
	})
}

// TestAddTakesMoreUnits: further units are decided as an attempt, all or none, and a later
// settlement gives back those of the newest Add at most.
func TestAddTakesMoreUnits(t *testing.T) {
	for _, mode := range []weir.Mode{weir.AllOrNothing, weir.Partial, weir.CountDenied} {
		synctest.Test(t, func(t *testing.T) {
			l := model(mode)
			r := reserveFor(t, l, weir.Request{N: 600, TTL: time.Minute})
			time.Sleep(20 * time.Second)
			d, err := r.Add(ctx, 300)
			if err != nil || !d.Allowed || d.Granted != 300 || d.Remaining != 100 {
				t.Errorf("%v: 300 more: %+v, %v", mode, d, err)
			}
			assert.Equal(t, r.Units(), 900, "%v: units", mode)
			assert.Equal(t, time.Until(r.ExpiresAt()), time.Minute, "%v: life", mode)
			time.Sleep(time.Second)
			before := r.ExpiresAt()
			d, err = r.Add(ctx, 200)
			isDenied := !d.Allowed && d.Granted == 0 && d.Limit == "minute" && d.Max == 1000
			if err != nil || !isDenied || d.RetryAfter != 39*time.Second {
				t.Errorf("%v: 200 more: %+v, %v; want a denial of minute", mode, d, err)
			}
			wantUsed(t, l, 900, 900)
			assert.Equal(t, fmt.Sprint(r.Units(), r.ExpiresAt().Equal(before)), "900 true", "%v: after a denial", mode)
			wantError(t, "commit of 100", r.Commit(ctx, 100), nil)
			wantUsed(t, l, 600, 600) // the first 600 count as used
			wantError(t, "more after the settlement", second(r.Add(ctx, 1)), weir.ErrSettled)
		})
	}
}

// TestAddInDoubt: an Add whose answer was lost is made once, whether it was made or not, because it
// names the units before it.
func TestAddInDoubt(t *testing.T) {
	for name, fault := range map[string]weirtest.Fault{"made": weirtest.Lost(), "not made": unsure} {
		store := weirtest.NewFaulty(weir.NewMemory())
		l := model(weir.AllOrNothing, weir.WithEngine(store))
		r := reserve(t, l, 10)
		store.Break(fault)
		for range 2 {
			wantError(t, name, second(r.Add(ctx, 5)), weir.ErrOutcomeUnknown)
		}
		store.Restore()
		d, err := r.Add(ctx, 5)
		if err != nil || !d.Allowed || d.Granted != 5 || d.Replayed != (name == "made") {
			t.Errorf("%s, again: %+v, %v", name, d, err)
		}
		wantUsed(t, l, 15, 15)
		wantError(t, name+", another one", second(r.Add(ctx, 5)), nil)
		assert.Equal(t, r.Units(), 20, "%s: units", name)
		wantUsed(t, l, 20, 20)
	}
}

// TestAddAfterAnotherHandle: an Add from an older number of units is an error with the next step,
// and takes none. Extend reads the number.
func TestAddAfterAnotherHandle(t *testing.T) {
	l := model(weir.AllOrNothing)
	r := reserve(t, l, 10)
	other := must(l.Reservation(acme, r.ID()))
	wantError(t, "extend", other.Extend(ctx), nil)
	wantError(t, "5 more", second(other.Add(ctx, 5)), nil)
	_, err := r.Add(ctx, 6)
	assert.Error(t, err, &weir.InputError{Field: "units"}, "15", "10", "read the number with Extend")
	wantUsed(t, l, 15, 15)
	wantError(t, "extend", r.Extend(ctx), nil)
	wantError(t, "6 more", second(r.Add(ctx, 6)), nil)
	assert.Equal(t, r.Units(), 21, "units")
	wantUsed(t, l, 21, 21)
}

// TestConcurrentAdds: each Add of a handle takes its units, although all of them begin with the
// same number.
func TestConcurrentAdds(t *testing.T) {
	l := model(weir.AllOrNothing)
	r := reserve(t, l, 10)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 5 {
				d, err := r.Add(ctx, 2)
				if err != nil || !d.Allowed || d.Replayed {
					t.Errorf("2 more: %+v, %v", d, err)
				}
			}
		})
	}
	all.Wait()
	assert.Equal(t, r.Units(), 10+80, "units")
	wantUsed(t, l, 90, 90)
}

// TestAddAfterALateAnswer: the answer to an Extend that arrives after that to a later Add does not
// take the handle back to the units before it.
func TestAddAfterALateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := weir.NewMemory()
		l := model(weir.AllOrNothing, weir.WithEngine(lateExtend{store}))
		r := reserve(t, l, 10)
		go r.Extend(ctx)
		synctest.Wait() // decided, and not answered yet
		wantError(t, "5 more", second(r.Add(ctx, 5)), nil)
		time.Sleep(time.Second)
		synctest.Wait()
		d, err := r.Add(ctx, 5)
		if err != nil || !d.Allowed || d.Replayed {
			t.Errorf("5 more: %+v, %v; want another grant", d, err)
		}
		assert.Equal(t, r.Units(), 20, "units")
	})
}

// lateExtend is an engine whose answers to extensions without units take a second.
type lateExtend struct{ engine.Engine }

func (e lateExtend) Do(ctx context.Context, calls []engine.Call) {
	e.Engine.Do(ctx, calls)
	if calls[0].Op == engine.Extend && calls[0].N == 0 {
		time.Sleep(time.Second)
	}
}

// unsure is a store that loses calls and answers.
func unsure(context.Context, func()) error { return fmt.Errorf("%w: cut", weir.ErrOutcomeUnknown) }

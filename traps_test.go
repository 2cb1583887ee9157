package weir

import (
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/assert"
)

// Each test of this file names a trap of an earlier API: code that compiled and meant something
// else than its reader expected. TestR14BadInput and TestNewChecksEveryField have their errors.

// TestEveryKindIsMadeWithoutAStruct: fixed windows, buckets and concurrency limits were raw
// Limits of 13 fields, in which a field of another kind was easy to set.
func TestEveryKindIsMadeWithoutAStruct(t *testing.T) {
	made := map[Kind]Limit{
		KindRolling:     PerMinute(5, "user"),
		KindFixed:       Calendar(5, Month, "Europe/Berlin", "user"),
		KindBucket:      Bucket(5, time.Second, 10, "user"),
		KindConcurrency: AtOnce(5, time.Minute, "user"),
	}
	first := PerDay(5, "user")
	first.Kind = KindFixedFromFirst // it differs from a rolling limit in nothing else
	made[KindFixedFromFirst] = first
	for kind := KindRolling; kind <= KindConcurrency; kind++ {
		limit := made[kind]
		assert.Equal(t, limit.Kind, kind, "the kind of %+v", limit)
		l := mustNew(t, Policy{Name: "p", Limits: []Limit{limit.Apart(time.Millisecond)}})
		if d, err := l.Allow(ctx, K("ann")); !d.Allowed || err != nil {
			t.Errorf("%v: the first attempt: %v, %v", kind, d, err)
		}
	}
}

// TestRequestIsAnAttempt: a Request had an Op and a From, so that Decide also looked, recorded or
// refunded, and a From without a refund was ignored. A Call has both.
func TestRequestIsAnAttempt(t *testing.T) {
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Request]()) {
		if field.Type == reflect.TypeFor[engine.Op]() || field.Name == "From" {
			t.Errorf("Request has %s %v, which makes it another operation than an attempt", field.Name, field.Type)
		}
	}
	l := mustNew(t, perUser(5, time.Minute))
	if _, err := l.Decide(ctx, K("ann"), Request{N: 2}); err != nil {
		t.Fatal(err)
	}
	d, err := l.Peek(ctx, K("ann"), 0)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, d.Remaining, 3, "units left after an attempt of 2")
}

// TestOrderOfLimitsChangesNoKey: the values of a key had the order in which the limits first named
// their dimensions. A limit that was added in front exchanged tenant and user of every key, in
// silence.
func TestOrderOfLimitsChangesNoKey(t *testing.T) {
	m := NewMemory()
	user, tenant := PerMinute(5, "user").Named("user"), PerMinute(9, "tenant").Named("tenant")
	pair := PerHour(7, "user", "tenant").Named("pair")
	for used, limits := range [][]Limit{{user, tenant}, {tenant, user}, {pair, user, tenant}, {user, pair, tenant}} {
		p := Policy{Name: "p", Dimensions: []string{"tenant", "user"}, Limits: limits}
		l := mustNew(t, p, WithEngine(m))
		if d, err := l.Allow(ctx, K("acme", "ann")); err != nil || d.Remaining != 4-int64(used) {
			t.Errorf("limits %d: got %v, %v; want the history of the same user", used, d, err)
		}
		named, err := l.Key(map[string]string{"user": "ann", "tenant": "acme"})
		if err != nil {
			t.Fatal(err)
		}
		assert.Equal(t, named.Value(0)+" "+named.Value(1), "acme ann", "the values of a key by names")

		p.Dimensions = nil // the order must be declared
		_, err = New(p)
		assert.Error(t, err, nil, "Dimensions: missing", "declare the order of the values in K")
	}
}

// ways are the ways to make a request, with their errors.
func ways(l *Limiter, r Request) map[string]error {
	decide := Call{Limiter: l, Key: K("ann"), Request: r}
	all, together := []Call{decide}, []Call{decide}
	DecideAll(ctx, all)
	return map[string]error{
		"Decide":         failed(l.Decide(ctx, K("ann"), r)),
		"DecideFor":      failed(l.DecideFor(ctx, map[string]string{"user": "ann"}, r)),
		"Call.Do":        failed(decide.Do(ctx)),
		"DecideAll":      all[0].Err,
		"DecideTogether": DecideTogether(ctx, together),
	}
}

// TestTTLIsForReservationsOnly: an attempt with a TTL reads as if its units came back by
// themselves. Nothing settles an attempt, so they would be charged.
func TestTTLIsForReservationsOnly(t *testing.T) {
	m := NewMemory()
	l := mustNew(t, perUser(5, time.Minute), WithEngine(m))
	for way, err := range ways(l, Request{N: 1, TTL: time.Second}) {
		t.Log(way)
		assert.Error(t, err, errRequest, "TTL is for Limiter.Reserve")
	}
	for _, op := range []engine.Op{engine.Peek, engine.Record, engine.Refund} {
		c := Call{Limiter: l, Key: K("ann"), Op: op, Request: Request{N: 1, TTL: time.Second}}
		if op == engine.Refund {
			c.From = time.UnixMicro(1)
		}
		_, err := c.Do(ctx)
		assert.Error(t, err, errRequest, "TTL is for Limiter.Reserve")
	}
	assert.Equal(t, m.Stats().Keys, 0, "histories")
	if r, d, err := l.Reserve(ctx, K("ann"), Request{N: 1, TTL: time.Second}); r == nil || !d.Allowed || err != nil {
		t.Errorf("a reservation: %v, %v", d, err)
	}
}

// TestForgottenUnitsAreNoPeek: a Request of 0 units was a peek. It was allowed and charged
// nothing, so a forgotten N switched the limit off.
func TestForgottenUnitsAreNoPeek(t *testing.T) {
	l := mustNew(t, perUser(5, time.Minute))
	for way, err := range ways(l, Request{}) {
		t.Log(way)
		assert.Error(t, err, errUnits, "0; ", "Peek looks without a charge")
	}
	for name, err := range map[string]error{
		"Reserve":    func() error { _, _, err := l.Reserve(ctx, K("ann"), Request{}); return err }(),
		"ReserveFor": func() error { _, _, err := l.ReserveFor(ctx, map[string]string{"user": "ann"}, Request{}); return err }(),
	} {
		t.Log(name)
		assert.Error(t, err, errUnits, "Peek")
	}
	d, err := l.AllowN(ctx, K("ann"), 0) // the caller wrote the 0
	if !d.Allowed || d.Granted != 0 || err != nil {
		t.Errorf("AllowN of 0 units: %v, %v; want a peek", d, err)
	}
}

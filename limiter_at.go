package weir

import (
	"context"
	"time"
)

// LimiterAt is a Limiter that decides all calls at one instant of the caller, instead of at
// the engine's clock (R1). It serves replay and tests. Its methods have the signatures of
// [Limiter]'s.
type LimiterAt struct {
	limiter *Limiter
	at      time.Time // in range, unless err is set
	err     error     // set when the instant is out of range; every call returns it
}

// At returns the limiter at instant t, 1970-01-01T00:00:00Z … MaxUnits µs later, cut to whole
// microseconds. Calls at an instant out of range, such as the zero time.Time, return
// [ErrInstant].
func (l *Limiter) At(t time.Time) LimiterAt {
	_, err := instant(t, "or call the Limiter itself to decide now")
	return LimiterAt{limiter: l, at: t, err: err}
}

// Allow is [Limiter.Allow] at the instant.
func (l LimiterAt) Allow(ctx context.Context, key Key) (Decision, error) {
	return l.Decide(ctx, key, Request{Op: OpAttempt, N: 1})
}

// AllowN is [Limiter.AllowN] at the instant.
func (l LimiterAt) AllowN(ctx context.Context, key Key, n int64) (Decision, error) {
	return l.Decide(ctx, key, Request{Op: OpAttempt, N: n})
}

// AllowOnce is [Limiter.AllowOnce] at the instant.
func (l LimiterAt) AllowOnce(ctx context.Context, key Key, n int64, id string) (Decision, error) {
	return l.once(ctx, key, Request{Op: OpAttempt, N: n, ID: id})
}

// Peek is [Limiter.Peek] at the instant.
func (l LimiterAt) Peek(ctx context.Context, key Key, n int64) (Decision, error) {
	return l.Decide(ctx, key, Request{Op: OpPeek, N: n})
}

// Record is [Limiter.Record] at the instant.
func (l LimiterAt) Record(ctx context.Context, key Key, n int64) (Decision, error) {
	return l.Decide(ctx, key, Request{Op: OpRecord, N: n})
}

// RecordOnce is [Limiter.RecordOnce] at the instant.
func (l LimiterAt) RecordOnce(ctx context.Context, key Key, n int64, id string) (Decision, error) {
	return l.once(ctx, key, Request{Op: OpRecord, N: n, ID: id})
}

func (l LimiterAt) once(ctx context.Context, key Key, r Request) (Decision, error) {
	if r.ID == "" {
		return Decision{}, errNoID
	}
	return l.Decide(ctx, key, r)
}

// Decide is [Limiter.Decide] at the instant. r.At is ignored.
func (l LimiterAt) Decide(ctx context.Context, key Key, r Request) (d Decision, err error) {
	clear(r.States)
	if l.err != nil {
		return d, l.err
	}
	r.At = l.at
	if err = l.limiter.decide(ctx, &key, &r, &d); err != nil {
		clear(r.States)
	}
	return d, err
}

// Refund is [Limiter.Refund] at the instant.
func (l LimiterAt) Refund(ctx context.Context, key Key, granted time.Time, n int64) (int64, error) {
	if l.err != nil {
		return 0, l.err
	}
	return l.limiter.refund(ctx, &key, granted, n, l.at.UnixMicro(), "")
}

// RefundOnce is [Limiter.RefundOnce] at the instant.
func (l LimiterAt) RefundOnce(ctx context.Context, key Key, granted time.Time, n int64, id string) (int64, error) {
	if l.err != nil {
		return 0, l.err
	}
	if id == "" {
		return 0, errNoID
	}
	return l.limiter.refund(ctx, &key, granted, n, l.at.UnixMicro(), id)
}

// Count is [Limiter.Count] at the instant.
func (l LimiterAt) Count(ctx context.Context, key Key, limit string, last time.Duration) (int64, error) {
	if l.err != nil {
		return 0, l.err
	}
	return l.limiter.count(ctx, &key, limit, last, l.at.UnixMicro())
}

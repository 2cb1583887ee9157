package weir

import (
	"context"
	"fmt"
	"time"
)

// Instant is a Limiter whose every call happens at one instant that the caller
// chose, in place of the engine's clock: for replay and tests (R1). Instants are
// whole microseconds from 1970 to 2255, the rest is cut off.
type LimiterAt struct {
	l   *Limiter
	at  int64
	err error
}

// At returns the limiter as of instant t.
func (l *Limiter) At(t time.Time) LimiterAt {
	at, err := instant(t)
	if err != nil {
		err = fmt.Errorf("%w: %v; use 1970 to 2255", err, t)
	}
	return LimiterAt{l: l, at: at, err: err}
}

// Allow is Limiter.AllowN at the instant.
func (i LimiterAt) Allow(ctx context.Context, key Key, n int64) (Decision, error) {
	return i.Decide(ctx, key, Request{Op: OpAttempt, N: n})
}

// Peek is Limiter.Peek at the instant.
func (i LimiterAt) Peek(ctx context.Context, key Key, n int64) (Decision, error) {
	return i.Decide(ctx, key, Request{Op: OpPeek, N: n})
}

// Record is Limiter.Record at the instant.
func (i LimiterAt) Record(ctx context.Context, key Key, n int64) (Decision, error) {
	return i.Decide(ctx, key, Request{Op: OpRecord, N: n})
}

// Decide answers a at the instant, whatever a.At says.
func (i LimiterAt) Decide(ctx context.Context, key Key, a Request) (d Decision, err error) {
	if i.err != nil {
		return d, i.err
	}
	a.At = i.at
	err = i.l.decide(ctx, &key, &a, &d)
	return d, err
}

// Refund is Limiter.Refund at the instant.
func (i LimiterAt) Refund(ctx context.Context, key Key, granted time.Time, n int64) (int64, error) {
	if i.err != nil {
		return 0, i.err
	}
	return i.l.refund(ctx, &key, granted, n, i.at, "")
}

// RefundOnce is Limiter.RefundOnce at the instant.
func (i LimiterAt) RefundOnce(ctx context.Context, key Key, granted time.Time, n int64, id string) (int64, error) {
	if i.err != nil {
		return 0, i.err
	}
	if id == "" {
		return 0, errNoID
	}
	return i.l.refund(ctx, &key, granted, n, i.at, id)
}

// Count is Limiter.Count at the instant.
func (i LimiterAt) Count(ctx context.Context, key Key, limit string, last time.Duration) (int64, error) {
	if i.err != nil {
		return 0, i.err
	}
	return i.l.count(ctx, &key, limit, last, i.at)
}

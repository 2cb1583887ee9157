package reserve

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"math/bits"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/engine"
)

// claims remember in the store which reservations were settled, and with how many
// units, so that one of all servers and retries settles. A claim is an operation with an
// idempotency key, in a history of the reservation's mark. Its window is that of the
// reservation rounded up to a power of two, so that the store drops it soon after it
// matters. Without its store it makes none.
type claims struct {
	engine engine.Engine

	mu     sync.Mutex
	ledger map[int]*ledger // by the power of two of the window, in microseconds
}

// ledger holds the claims of one window.
type ledger struct {
	write *weir.Limiter
	read  *weir.Limiter // on the same histories with Max 0: replays an operation, or denies
}

// of returns the ledger with a window of at least ttl.
func (c *claims) of(ttl time.Duration) (*ledger, error) {
	power := bits.Len64(uint64(max(ttl, weir.MinWindow).Microseconds() - 1))
	window := min(time.Duration(1)<<power*time.Microsecond, weir.MaxWindow)
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.ledger[power]; l != nil {
		return l, nil
	}
	limiter := func(most int64) (*weir.Limiter, error) {
		limit := weir.Limit{Name: "settled" + strconv.Itoa(power), Max: most, Cost: 1,
			Window: max(window, weir.MinWindow), By: []string{"reservation"}}
		return weir.New(weir.Policy{Name: "weir.reservations", Limits: []weir.Limit{limit}},
			weir.WithEngine(c.engine), weir.WithOutage(engine.OutageDeny))
	}
	write, err1 := limiter(weir.MaxUnits)
	read, err2 := limiter(0)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, err
	}
	c.ledger[power] = &ledger{write, read}
	return c.ledger[power], nil
}

// claim is a claim of a reservation: the first, or a retry with the same units.
type claim struct {
	number int           // among the claims of the reservation, from 0
	first  bool          // made by this call
	now    time.Time     // by the clock of the store
	age    time.Duration // since the first call
}

// Errors of reservations that cannot be claimed.
var (
	errSettled  error = &calls.Problem{Err: weir.ErrSettled, Detail: "the reservation is settled already; nothing was changed"} // with other units, or too long ago for a retry
	errExtended error = &calls.Problem{Err: weir.ErrSettled, Detail: "the reservation was extended, which returned another one; nothing was changed. Settle that one; if its answer was lost, extend this one again"}

	errHoldEnded = errors.New("the claim needs the hold, which ended before")
)

// errExpired returns the error of a reservation that has expired.
func errExpired(r *reservation) error {
	return &calls.Problem{Err: weir.ErrExpired, Detail: "the reservation has expired; its " + strconv.FormatInt(r.Units, 10) + " units stay as they were granted"}
}

// A claim is an attempt of the units that were used and one more, because an attempt of 0
// would be a peek. MaxUnits stands for an extension.
const extends = weir.MaxUnits

// settles returns the units of a claim to settle.
func settles(actual int64) int64 { return min(actual, extends-2) + 1 }

// The units of a void are its reason.
const (
	rejected = 1 // the engine accepts no such correction
	ended    = 2 // the hold ended by time, so no later claim finds it
	tooLate  = 3 // the store's clock is ahead of this process's, and the reservation had expired
)

// maxClaims is how often a reservation can be claimed with units that no correction
// accepts.
const maxClaims = 64

// minRetry is the least time for which a settlement can be retried. The store remembers
// its correction that long, and at least for the longest window, which is also the
// longest life of a reservation (engine.Compiled.IdempotencyTTL).
const minRetry = time.Minute

// take claims the reservation to settle or to extend it. The same units again are a retry.
// A claim that needs the hold is not made after a void because the hold has ended, so
// callers that repeat it do not use up maxClaims. Nor is one that comes late by the clock of
// this process, so an earlier claim stays known as the settlement. With full, the error of a
// first correction, it finds an earlier claim or returns full: a retry needs no room.
func (c *claims) take(ctx context.Context, r *reservation, units int64, needsHold bool, full error) (made claim, err error) {
	l, err := c.of(r.claimTTL())
	if err != nil {
		return made, err
	}
	if full != nil {
		l = &ledger{l.read, l.read}
	}
	ledger, late := l.write, r.expired(time.Now())
	if late {
		ledger = l.read
	}
	for ; made.number < maxClaims; made.number++ {
		d, err := ledger.AllowOnce(ctx, r.claimKey(), units, made.id("settled"))
		other := errors.Is(err, &engine.InputError{Field: "id"})
		switch {
		case err != nil && !other:
			return made, err
		case err == nil && !d.Replayed && late && !r.expired(d.At): // the clock of the store is behind
			ledger, late, made.number = l.write, false, -1
			continue
		case err == nil && !d.Replayed && late:
			return made, errExpired(r)
		case err == nil && !d.Replayed && ledger == l.read: // a denial
			return made, cmp.Or(full, errHoldEnded)
		case err == nil && !d.Replayed && r.expired(d.At):
			c.void(ctx, r, made, tooLate)
			return made, errExpired(r)
		case err == nil && !d.Replayed:
			made.first, made.now = true, d.At
			return made, nil
		}
		void, err := l.read.AllowOnce(ctx, r.claimKey(), rejected, made.id("void"))
		if errors.Is(err, &engine.InputError{Field: "id"}) { // voided as ended or tooLate
			if void, err := l.read.AllowOnce(ctx, r.claimKey(), tooLate, made.id("void")); err == nil && void.Replayed {
				return made, errExpired(r)
			}
			if needsHold {
				ledger = l.read
			}
			continue
		}
		if err != nil {
			return made, err
		}
		if void.Replayed {
			continue
		}
		made.now, made.age = void.At, void.At.Sub(d.At)
		switch { // a denial has the instant of now
		case !other && r.expired(d.At):
			return made, errExpired(r)
		case other || r.expired(void.At) && made.age >= minRetry:
			if _, err := l.read.AllowOnce(ctx, r.claimKey(), extends, made.id("settled")); other && err == nil {
				return made, errExtended
			}
			return made, errSettled
		}
		return made, nil
	}
	return made, errSettled
}

// void cancels a claim for a reason. If it fails, the claim stays and the reservation keeps
// its units.
func (c *claims) void(ctx context.Context, r *reservation, made claim, reason int64) {
	if l, err := c.of(r.claimTTL()); err == nil {
		l.write.AllowOnce(ctx, r.claimKey(), reason, made.id("void"))
	}
}

// id returns the idempotency key of a step of the claim.
func (c claim) id(step string) string { return step + " " + strconv.Itoa(c.number) }

// identity is the identity of the store, to which reservations are bound. It is fetched
// again after identityTTL, since the store may have lost its data.
type identity struct {
	fetch    func(context.Context) (string, error)
	cached   atomic.Pointer[fetched]
	renewing atomic.Bool
}

type fetched struct {
	id string
	at time.Time
}

// identityTTL is how long an identity is used without another fetch.
const identityTTL = 10 * time.Second

// identityBytes is the length of an identity in a reservation: of its digest.
const identityBytes = 8

// get returns the digest of the identity; while the store does not answer, the last one.
func (i *identity) get(ctx context.Context) (string, error) {
	f := i.cached.Load()
	if f == nil {
		return i.renew(ctx)
	}
	if time.Since(f.at) >= identityTTL && i.renewing.CompareAndSwap(false, true) {
		defer i.renewing.Store(false)
		if id, err := i.renew(ctx); err == nil {
			return id, nil
		}
	}
	return f.id, nil
}

// renew fetches the identity.
func (i *identity) renew(ctx context.Context) (string, error) {
	id, err := i.fetch(ctx)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(id))
	f := &fetched{string(sum[:identityBytes]), time.Now()}
	i.cached.Store(f)
	return f.id, nil
}

// is reports whether id is the current identity of the store.
func (i *identity) is(ctx context.Context, id string) (bool, error) {
	now, err := i.get(ctx)
	if err == nil && now != id {
		now, err = i.renew(ctx)
	}
	return now == id, err
}

// process names this process.
var process = rand.Text()

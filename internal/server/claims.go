package server

import (
	"context"
	"errors"
	"math/bits"
	"strconv"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
)

// claims remember in the store which reservations were settled, and by how many units,
// so that of all servers and all retries one settles: as operations, by the name of the
// reservation. The windows are those of the reservations rounded up, so that what
// is remembered goes soon after it matters.
type claims struct {
	engine weir.Engine

	mu     sync.Mutex
	ledger map[int]*ledger // by the power of two of their windows, microseconds
}

// ledger is where the claims of a window are.
type ledger struct {
	write *weir.Limiter
	read  *weir.Limiter // of the same histories, without room: who asks is told what was written, or refused
}

// newClaims returns the claims of reservations on e, which without its store makes
// none.
func newClaims(e weir.Engine) *claims {
	if f, ok := e.(*fallback.Engine); ok {
		e = f.WithMode(fallback.FailClosed)
	}
	return &claims{engine: e, ledger: map[int]*ledger{}}
}

// of is the ledger whose window is at least ttl.
func (c *claims) of(ttl time.Duration) (*ledger, error) {
	power := bits.Len64(uint64(max(ttl, weir.MinWindow).Microseconds() - 1))
	window := min(time.Duration(1)<<power*time.Microsecond, weir.MaxWindow)
	c.mu.Lock()
	defer c.mu.Unlock()
	if l := c.ledger[power]; l != nil {
		return l, nil
	}
	limit := weir.Limit{Name: "settled" + strconv.Itoa(power), Cost: 1, Window: max(window, weir.MinWindow), By: []string{"reservation"}}
	var l ledger
	for _, each := range []struct {
		to  *(*weir.Limiter)
		max int64
	}{{&l.write, weir.MaxUnits}, {&l.read, 0}} {
		var err error
		limit.Max = each.max
		if *each.to, err = weir.New(weir.Policy{Name: "weir.reservations", Limits: []weir.Limit{limit}}, weir.WithEngine(c.engine)); err != nil {
			return nil, err
		}
	}
	c.ledger[power] = &l
	return &l, nil
}

// claim is what became of one, and which of the reservation's claims it is.
type claim struct {
	verdict verdict
	number  int
}

type verdict uint8

const (
	mayCorrect    verdict = iota // by whoever claims it first, or again with the same actual
	tooLate                      // it had expired
	settledBefore                // with another actual, or too long ago to say the same again
)

// mostClaims is how often a reservation can be settled with units that nothing can be
// corrected by.
const mostClaims = 64

// take claims the reservation for whoever says that so many units were used. The claim
// is an operation with an id, so that who claims again is known by the same units.
func (c *claims) take(ctx context.Context, r *reservation, actual int64) (made claim, err error) {
	l, err := c.of(r.claimed())
	if err != nil {
		return made, err
	}
	units := min(actual, weir.MaxUnits-1) + 1 // 0 would be a peek
	for ; made.number < mostClaims; made.number++ {
		d, err := l.write.AllowOnce(ctx, r.claim(), units, made.name("settled"))
		other := errors.Is(err, weir.ErrID)
		switch {
		case err != nil && !other:
			return made, err
		case err == nil && !d.Replayed:
			if r.expired(d.At) {
				made.verdict = tooLate
			}
			return made, nil
		}
		void, err := l.read.AllowOnce(ctx, r.claim(), 1, made.name("void"))
		if err != nil {
			return made, err
		}
		if void.Replayed {
			continue
		}
		switch { // a look refused at the instant of now
		case !other && r.expired(d.At) || other && r.expired(void.At):
			made.verdict = tooLate
		case other || r.expired(void.At) && void.At.Sub(d.At) >= repeats:
			made.verdict = settledBefore
		}
		return made, nil
	}
	made.verdict = settledBefore
	return made, nil
}

// void takes back a claim by which nothing can be corrected. If it fails the claim
// stays: then the reservation keeps its units.
func (c *claims) void(ctx context.Context, r *reservation, made claim) {
	if l, err := c.of(r.claimed()); err == nil {
		l.write.AllowOnce(ctx, r.claim(), 1, made.name("void"))
	}
}

// name is the id of what is written of a claim.
func (c claim) name(what string) string { return what + " " + strconv.Itoa(c.number) }

// repeats is for how long a settlement can be made again for the same answer at least.
// What it corrects by is remembered that long, and for the longest window, which is as
// long as the reservation lasts, too (weir.Plan.IdempotencyTTL).
const repeats = time.Minute

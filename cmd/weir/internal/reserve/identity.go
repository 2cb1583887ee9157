package reserve

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/engine"
)

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

// identityOf returns the identity of an engine that no other process shares.
func identityOf(e engine.Engine) func(context.Context) (string, error) {
	id := fmt.Sprintf("%s %p", process, e)
	return func(context.Context) (string, error) { return id, nil }
}

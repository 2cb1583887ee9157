package calls

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Reservations counts those of a policy since the start. The reservations of a store belong to all
// of its instances, so another instance may settle one that was opened here. No engine has a cheap
// number of its open reservations: each instance follows those that it has opened.
type Reservations struct {
	Opened  int64 `json:"opened" jsonschema:"by this instance"`
	Settled int64 `json:"settled" jsonschema:"by this instance"`
	Expired int64 `json:"expired" jsonschema:"settlements and extensions that came too late"`
	Open    int64 `json:"open" jsonschema:"opened and not settled by this instance, and not over"`
	Ended   int64 `json:"ended" jsonschema:"opened and not settled by this instance, and over"`
	Missed  int64 `json:"missed,omitempty" jsonschema:"opened while 50,000 were open, and in neither open nor ended"`
}

// Reservations returns the counts of reservations.
func (p *Rule) Reservations() Reservations {
	r := Reservations{
		Opened:  p.opened.Load(),
		Settled: p.settled.Load(),
		Expired: p.expired.Load(),
	}
	r.Open, r.Ended, r.Missed = p.open.counts(time.Now().UnixMicro())
	return r
}

// maxFollowed bounds the open reservations of a policy that are followed, to about 2 MB.
const maxFollowed = 50_000

// sweepEvery is the least time between two searches for ended reservations while maxFollowed are
// open, in microseconds.
const sweepEvery = int64(time.Second / time.Microsecond)

// openReservations follows the reservations that this process has opened, until they are settled
// here or end. The zero value is empty.
type openReservations struct {
	mu     sync.Mutex       // protects the following
	ends   map[uint64]int64 // microseconds since 1970, by the hash of the key and the id
	ended  int64
	missed int64
	swept  int64 // the last search for ended ones
}

// reservationSeed is that of the hashes of reservations.
var reservationSeed = maphash.MakeSeed()

// hash returns the hash of a reservation of a policy.
func (*openReservations) hash(key *engine.Key, id string) uint64 {
	hash := maphash.String(reservationSeed, id)
	for i := range key.Len() {
		hash = 31*hash + maphash.String(reservationSeed, key.Value(i))
	}
	return hash
}

// follow adds an opened reservation with its end.
func (o *openReservations) follow(hash uint64, end, now int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ends == nil {
		o.ends = map[uint64]int64{}
	}
	if len(o.ends) >= maxFollowed && now-o.swept >= sweepEvery {
		o.sweep(now)
	}
	if len(o.ends) >= maxFollowed {
		o.missed++
		return
	}
	o.ends[hash] = end
}

// extend sets the end of a reservation.
func (o *openReservations) extend(hash uint64, end int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.ends[hash]; ok {
		o.ends[hash] = end
	}
}

// settle removes a reservation.
func (o *openReservations) settle(hash uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.ends, hash)
}

// sweep removes the reservations that have ended. The lock is held.
func (o *openReservations) sweep(now int64) {
	o.swept = now
	for hash, end := range o.ends {
		if end <= now {
			delete(o.ends, hash)
			o.ended++
		}
	}
}

// counts returns the numbers of reservations that are open, have ended and were not followed.
func (o *openReservations) counts(now int64) (open, ended, missed int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sweep(now)
	return int64(len(o.ends)), o.ended, o.missed
}

package window

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// queueOf returns a random bucket with a queue behind it.
func queueOf(r *rand.Rand, now int64) (*Queue, *Rule) {
	f := NewRefill(1+r.Int64N(9), 1+r.Int64N(1_000_000))
	rule := &Rule{Max: min(1+r.Int64N(50), f.MaxExact), Rate: 1, Refill: &f}
	h := Empty
	h.SetBucket(1, now, 0, now, now)
	return &Queue{List: &Ahead{}, Bucket: &h, Refill: &f, Most: f.MaxExact, Keeps: true}, rule
}

// used returns the units that are missing or ahead at an instant.
func (q *Queue) used(at int64) int64 {
	b, begun := *q.Bucket, q.List.Begun(at)
	q.List.BeginAll(&b, q.Refill, q.From, begun, q.Most)
	return b.Missing(q.Refill, at) + q.List.Sum(begun, len(q.List.Entries))
}

// TestQueueWaits: the wait behind appointments is the least one, by a search over all instants. The
// end of the queue that is kept is that of a walk through the queue, whatever happens to it.
func TestQueueWaits(t *testing.T) {
	for seed := range uint64(race.Fewer(300)) {
		r := rand.New(rand.NewPCG(seed, 18))
		now := int64(1_700_000_000_000_000)
		q, rule := queueOf(r, now)
		for step := range 60 {
			where := fmt.Sprintf("seed %d, step %d", seed, step)
			now += r.Int64N(200_000)
			begun := q.List.Begun(now)
			q.List.BeginAll(q.Bucket, q.Refill, 0, begun, q.Most)
			q.List.Drop(begun)
			room := r.Int64N(rule.Max)
			wait := q.Wait(now, room)
			if wait < 0 || q.used(now+wait) > room || wait > 0 && q.used(now+wait-1) <= room {
				t.Fatalf("%s: %d units are used now; after %d µs %d, a microsecond sooner %d, want at most %d", where, q.used(now), wait, q.used(now+wait), q.used(now+wait-1), room)
			}
			q.change(r, rule, now, wait, rule.Max-room)
			kept, walked := q.List.Final(q.Bucket, q.Refill, 0, q.Most, true), q.List.Final(q.Bucket, q.Refill, 0, q.Most, false)
			if *kept.log() != *walked.log() {
				t.Fatalf("%s: the kept end of the queue is %+v, want %+v", where, *kept.log(), *walked.log())
			}
		}
	}
}

// change books n units after a wait, or sooner, takes some from the bucket, or cancels some.
func (q *Queue) change(r *rand.Rand, rule *Rule, now, wait, n int64) {
	switch x := r.IntN(10); {
	case x < 7:
		start := now + wait
		if x == 6 {
			start += r.Int64N(1_000_000)
		}
		if start <= now {
			start = now + 1
		}
		q.List.Book(start, n)
		q.List.Extend(q.Bucket, q.Refill, start, n, q.Most)
	case x < 8:
		q.Bucket.Take(rule, now, n, false)
		q.List.Forget()
	case len(q.List.Entries) > 0:
		q.List.Cancel(r.IntN(len(q.List.Entries)), n)
	}
}

// TestLeaveFromBothEnds: of entries with any units, the same one must leave, whichever end of the
// list is nearer.
func TestLeaveFromBothEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 19))
	for range 2000 {
		var x Ahead
		for i := range 1 + r.Int64N(8) {
			x.Book(i, 1+r.Int64N(2)*r.Int64N(5))
		}
		from := r.IntN(len(x.Entries))
		units := x.Sum(from, len(x.Entries))
		for need := int64(1); need <= units; need++ {
			want := from
			for x.Sum(from, want+1) < need {
				want++
			}
			assert.Equal(t, x.Leave(from, units, need), want, "%v from %d on: the last entry of %d units", x.Entries, from, need)
		}
	}
}

// TestAheadKeepsItsOrder: appointments rise, whatever their order of booking, and those of one
// instant are one.
func TestAheadKeepsItsOrder(t *testing.T) {
	var x Ahead
	for _, start := range []int64{5, 3, 9, 5, 1} {
		x.Book(start, start)
	}
	assert.Equal(t, fmt.Sprint(x.Entries, x.Units), "[{1 1} {3 3} {5 10} {9 9}] 23", "the list")
	assert.Equal(t, fmt.Sprint(x.Begun(4), x.Begun(5), x.Newest()), "2 3 9", "begun at 4 and at 5, and the newest")
	assert.Equal(t, x.Cancel(2, 4), 4, "units of a cancel")
	assert.Equal(t, x.Cancel(2, 90), 6, "units of a cancel of the rest")
	x.Drop(1)
	assert.Equal(t, fmt.Sprint(x.Entries, x.Units), "[{3 3} {9 9}] 12", "the list")
	_, found := x.Find(5)
	assert.Equal(t, found, false, "the appointment that was cancelled")
}

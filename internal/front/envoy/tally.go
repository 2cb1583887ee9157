package envoy

import (
	"sync"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/front/envoyconf"
)

// tally is what became of the hits of a rule, since it was first in force without a
// break.
type tally struct {
	granted, denied atomic.Int64 // hits
	shadowed        atomic.Int64 // hits over the limit of a rule that only watches
	refunded        atomic.Int64 // hits given back, as asked for
	near            atomic.Int64 // hits granted of the last fifth of the limit

	details sync.Map // of a rule whose metrics tell values apart: a name with them to *tally
	known   atomic.Int64
}

// Values that a rule's metrics tell apart are the callers' to choose, and a metric must
// not grow without end: so they are as many at most, and names with them so long.
const (
	mostDetails     = 1000
	mostDetailBytes = 512
)

// of returns the tally of requests with those values, or t once there are too many, or
// if they are too long.
func (t *tally) of(detail string) *tally {
	if detail == "" || len(detail) > mostDetailBytes {
		return t
	}
	if d, ok := t.details.Load(detail); ok {
		return d.(*tally)
	}
	if t.known.Add(1) > mostDetails {
		t.known.Add(-1)
		return t
	}
	d, there := t.details.LoadOrStore(detail, new(tally))
	if there {
		t.known.Add(-1)
	}
	return d.(*tally)
}

// near is how many of the hits that the item was granted are near its limit: above four
// fifths of it, as the reference has it.
func (it *item) near() int64 {
	most := int64(it.limit.rule.Requests)
	return max(min(most-it.remaining-most*4/5, it.n), 0)
}

// detailOf names requests of a rule with detailed_metric or value_to_metric as the
// reference's metrics do: with the values that are told apart, and of the other
// descriptors on its path what the configuration says, the pattern included where
// values share a threshold.
func detailOf(domain string, r *envoyconf.Rule, entries []envoyconf.Entry) string {
	b := []byte(domain)
	told := r.Told
	for i, e := range entries {
		b = append(b, '.')
		if len(told) == 0 || told[0] != i {
			b = append(b, r.Levels[i]...)
			continue
		}
		told = told[1:]
		b = append(b, e.Key...)
		if e.Value != "" {
			b = append(append(b, '_'), e.Value...)
		}
	}
	return string(b)
}

// counts is what became of requests.
type counts struct {
	ok, over       atomic.Int64
	failed         atomic.Int64 // without a decision
	badInputs      atomic.Int64
	unknownDomains atomic.Int64
	kept           atomic.Int64 // hits that should have been taken back, and the store could not be asked

	unsaid     atomic.Int64 // errors since the last line of the log
	complained atomic.Int64 // Unix second of that line
}

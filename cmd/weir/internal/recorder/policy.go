package recorder

import (
	"slices"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/replay"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Policy records the calls of one policy. A nil Policy records nothing.
type Policy struct {
	to         *Recorder
	name       string
	dimensions []string
	planBy     string            // the name of the value that chooses a plan; "" if it is a dimension
	plans      []string          // names of plans
	sampleBy   []int             // the indexes of the dimensions that choose the sample
	public     []map[string]bool // by dimension: values that the policy file names
}

// Policy returns the recorder of a rule. Its file names some values of keys: those of
// overrides, and the plans if plan-by is a dimension. These stay readable, because a replay
// finds overrides and plans by them.
func (r *Recorder) Policy(rule *enforce.Rule) *Policy {
	p := &Policy{to: r, name: rule.Name, dimensions: rule.Dimensions(), public: make([]map[string]bool, len(rule.Dimensions()))}
	for _, t := range rule.Plans {
		p.plans = append(p.plans, t.Name)
	}
	if i := slices.Index(p.dimensions, rule.PlanBy); i >= 0 {
		for _, name := range p.plans {
			p.publish(i, name)
		}
	} else {
		p.planBy = rule.PlanBy
	}
	for _, o := range rule.Overrides {
		for _, d := range o.For {
			p.publish(slices.Index(p.dimensions, d.Name), d.Value)
		}
	}
	p.sampleBy = shared(rule)
	return p
}

func (p *Policy) publish(dimension int, value string) {
	if p.public[dimension] == nil {
		p.public[dimension] = map[string]bool{}
	}
	p.public[dimension][value] = true
}

// shared returns the dimensions by which every limit of a rule counts, or all dimensions if
// there is none. In the second case, some limit sees keys that are not in the sample.
func shared(rule *enforce.Rule) (by []int) {
	for i, d := range rule.Dimensions() {
		if !slices.ContainsFunc(rule.Limits, func(l weir.Limit) bool { return !slices.Contains(l.By, d) }) {
			by = append(by, i)
		}
	}
	if by == nil {
		for i := range rule.Dimensions() {
			by = append(by, i)
		}
	}
	return by
}

// samples reports whether the calls of a key are recorded.
func (p *Policy) samples(key *weir.Key) bool {
	if p == nil {
		return false
	}
	if p.to.config.Sample <= 1 || len(p.sampleBy) == 0 {
		return true
	}
	const prime = 1099511628211
	h := p.to.seed // FNV-1a from a secret start
	for _, i := range p.sampleBy {
		v := key.Value(i)
		for j := range len(v) {
			h = (h ^ uint64(v[j])) * prime
		}
		h = (h ^ uint64(len(v))) * prime
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15 // FNV-1a mixes its low bits badly
	h ^= h >> 29
	return h%uint64(p.to.config.Sample) == 0
}

// Rank orders the calls of one instant as they may have been decided: grants before
// denials, because a denial leaves the grants that were possible possible.
type Rank uint8

// The ranks.
const (
	Granted Rank = iota
	GrantedInPart
	Denied
)

// Decided records an attempt or a record with the instant of its decision, in microseconds
// since 1970.
func (p *Policy) Decided(r *enforce.Request, at int64, rank Rank) {
	if !p.samples(&r.Key) {
		return
	}
	p.to.skew.Store(at - time.Now().UnixMicro())
	op := replay.Check
	if r.Op == weir.OpRecord {
		op = replay.Record
	}
	p.add(&r.Target, call{at: at, n: r.N, op: op, rank: rank}, "")
}

// Recorded records n units that a settlement added now, once for the id.
func (p *Policy) Recorded(t *enforce.Target, n int64, id string) {
	if p.samples(&t.Key) {
		p.add(t, call{at: p.now(), n: n, op: replay.Record}, id)
	}
}

// Refunded records a refund, now, of up to n units of the grant at an instant in
// microseconds since 1970, once for the id unless it is "".
func (p *Policy) Refunded(t *enforce.Target, granted, n int64, id string) {
	if granted >= 0 && p.samples(&t.Key) {
		p.add(t, call{at: p.now(), granted: granted, n: n, op: replay.Refund}, id)
	}
}

// Reset records a reset now.
func (p *Policy) Reset(key weir.Key) {
	if p.samples(&key) {
		p.add(&enforce.Target{Key: key}, call{at: p.now(), n: 1, op: replay.Reset}, "")
	}
}

// now returns the present instant by the engine's clock, as far as the last decision shows
// it: refunds and resets return no instant.
func (p *Policy) now() int64 { return time.Now().UnixMicro() + p.to.skew.Load() }

// add records a call of a sampled key.
func (p *Policy) add(t *enforce.Target, c call, id string) {
	var space [256]byte
	data := space[:0]
	for i := range p.dimensions {
		data = keyenc.Append(data, t.Key.Value(i))
	}
	c.of, c.key = p, len(data)
	if p.planBy != "" && t.Plan > 0 {
		c.plan = p.plans[t.Plan-1]
	}
	p.to.add(c, append(data, id...))
}

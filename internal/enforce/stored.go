package enforce

import (
	"cmp"
	"hash/maphash"
	"math/bits"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/policy"
)

// storedOverrides are the overrides of the store that apply to a rule, found by the key. A decision
// reads them without a lock. A change costs the same with one override and with 100,000: it
// replaces a bucket of a hash table. A Go map would be copied with each change.
//
// They stand before those of the file, because an operator has set them later. For each limit the
// first one that matches applies: that with the longest prefix, then the most values, then the
// newest.
type storedOverrides struct {
	sets atomic.Pointer[[]*storedSet] // nil = there was never one
}

// storedSet is a hash table of overrides that name the same dimensions and, if they name a network,
// a network of the same dimension and the same length. One caller at a time changes it, while
// others read.
type storedSet struct {
	secrets [2]uint64    // of the hashes of short values, random
	seed    maphash.Seed // of those of long ones
	values  []int        // dimensions with values that are no networks, ascending
	network int          // the dimension with networks as values; -1 for none
	bits    int          // the length of these networks; -1 for none
	table   atomic.Pointer[storedTable]
	count   int // nodes; only for the caller that changes
}

// storedTable is the buckets of a set. Nearly every key of a decision has no override, and
// the filter knows it: unlike the buckets it is small enough to stay in the caches of a processor.
type storedTable struct {
	filter  []atomic.Uint64              // filterBits for each bucket: which hashes it has
	buckets []atomic.Pointer[storedNode] // of a power of two
}

// filterBits is the number of bits in the filter for one bucket. A bucket has one node at most on
// average, so the filter lets at most a sixteenth of other keys pass.
const filterBits = 16

// storedNode holds the overrides of the same values. It never changes.
type storedNode struct {
	hash uint64
	all  []*bound
	next *storedNode
}

// minBuckets is the least number of buckets of a table.
const minBuckets = 16

// newStoredTable returns a table without nodes.
func newStoredTable(buckets int) *storedTable {
	return &storedTable{
		filter:  make([]atomic.Uint64, buckets*filterBits/64),
		buckets: make([]atomic.Pointer[storedNode], buckets),
	}
}

// mayHave reports whether there may be a node of a hash. The lowest bits of the hash choose one of
// the bits of its bucket, the next ones the bucket.
func (t *storedTable) mayHave(hash uint64) bool {
	word := t.filter[hash/64&uint64(len(t.filter)-1)].Load()
	return word>>(hash%64)&1 != 0
}

// bucket returns the bucket of a hash.
func (t *storedTable) bucket(hash uint64) *atomic.Pointer[storedNode] {
	return &t.buckets[hash/filterBits&uint64(len(t.buckets)-1)]
}

// replace replaces the first node of the bucket of a hash.
func (t *storedTable) replace(hash uint64, first *storedNode) {
	const whole = 1<<filterBits - 1
	shift := hash % 64 / filterBits * filterBits // of the bucket in its word
	var has uint64
	for n := first; n != nil; n = n.next {
		has |= 1 << (n.hash % filterBits)
	}
	word := &t.filter[hash/64&uint64(len(t.filter)-1)]
	t.bucket(hash).Store(first)
	word.Store(word.Load()&^(whole<<shift) | has<<shift)
}

// hash returns the hash of the values of a key that the set names, without a network.
func (s *storedSet) hash(key *weir.Key) (hash uint64) {
	for _, i := range s.values {
		hash = s.add(hash, key.Value(i))
	}
	return hash
}

// hashWith returns the hash of such values and of a network.
func (s *storedSet) hashWith(key *weir.Key, network netip.Prefix) uint64 {
	hash := s.hash(key)
	if s.network >= 0 {
		a := network.Addr().As16()
		hash = s.add(hash, string(a[:]))
	}
	return hash
}

// add adds a value to a hash. Most values are short, and their hash is that of wyhash: a product of
// two words, with the length, and a second one, because values that differ in few bytes leave bits
// of the first alike. maphash has more instructions in four functions, and each decision pays for
// them.
func (s *storedSet) add(hash uint64, v string) uint64 {
	n := len(v)
	var a, b uint64
	switch {
	case n > 16:
		a = maphash.String(s.seed, v)
	case n >= 8:
		a, b = word(v), word(v[n-8:])
	case n >= 4:
		a, b = halfWord(v), halfWord(v[n-4:])
	case n > 0:
		a = uint64(v[0])<<16 | uint64(v[n/2])<<8 | uint64(v[n-1])
	}
	return mix(mix(a^hash^s.secrets[0], b^uint64(n)^s.secrets[1]), s.secrets[1])
}

// mix returns the upper half of the product of two words joined to the lower one.
func mix(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// word returns the first eight bytes of a text.
func word(v string) uint64 { return halfWord(v) | halfWord(v[4:])<<32 }

// halfWord returns the first four bytes of a text.
func halfWord(v string) uint64 {
	return uint64(v[0]) | uint64(v[1])<<8 | uint64(v[2])<<16 | uint64(v[3])<<24
}

// node returns the node of a hash, of the values of a key and of a network of the set; nil for
// none.
func (s *storedSet) node(hash uint64, key *weir.Key, network netip.Prefix) *storedNode {
	for n := s.table.Load().bucket(hash).Load(); n != nil; n = n.next {
		if n.hash == hash && s.areOf(n.all[0], key, network) {
			return n
		}
	}
	return nil
}

// areOf reports whether the values of an override of the set are those of a key and a network.
func (s *storedSet) areOf(b *bound, key *weir.Key, network netip.Prefix) bool {
	for _, i := range s.values {
		if b.key.Value(i) != key.Value(i) {
			return false
		}
	}
	return b.prefix == network
}

// find returns the overrides of the set that match a key.
func (s *storedSet) find(key *weir.Key) []*bound {
	if s.network >= 0 {
		return s.findNetwork(key)
	}
	hash := s.hash(key)
	if !s.table.Load().mayHave(hash) {
		return nil
	}
	return s.allOf(hash, key, netip.Prefix{})
}

// findNetwork is find for a set with networks.
func (s *storedSet) findNetwork(key *weir.Key) []*bound {
	client := clientaddr.Known(key.Value(s.network))
	if s.bits > client.Bits() {
		return nil
	}
	network, err := client.Addr().Prefix(s.bits)
	if err != nil {
		return nil
	}
	hash := s.hashWith(key, network)
	if !s.table.Load().mayHave(hash) {
		return nil
	}
	return s.allOf(hash, key, network)
}

// allOf returns the overrides of a hash, of the values of a key and of a network of the set.
func (s *storedSet) allOf(hash uint64, key *weir.Key, network netip.Prefix) []*bound {
	if n := s.node(hash, key, network); n != nil {
		return n.all
	}
	return nil
}

// set replaces the overrides with the values of one; none deletes them.
func (s *storedSet) set(of *bound, all []*bound) {
	hash := s.hashWith(&of.key, of.prefix)
	old := s.node(hash, &of.key, of.prefix)
	t := s.table.Load()
	var first *storedNode
	for n := t.bucket(hash).Load(); n != nil; n = n.next {
		if n != old {
			first = &storedNode{hash: n.hash, all: n.all, next: first}
		}
	}
	if old != nil {
		s.count--
	}
	if len(all) > 0 {
		s.count++
		first = &storedNode{hash: hash, all: all, next: first}
	}
	t.replace(hash, first)
	if s.count > len(t.buckets) {
		s.table.Store(t.grown())
	}
}

// grown returns a copy of the table with twice as many buckets.
func (t *storedTable) grown() *storedTable {
	next := newStoredTable(2 * len(t.buckets))
	for i := range t.buckets {
		for n := t.buckets[i].Load(); n != nil; n = n.next {
			first := next.bucket(n.hash).Load()
			next.replace(n.hash, &storedNode{hash: n.hash, all: n.all, next: first})
		}
	}
	return next
}

// bound is an override of the store on a rule.
type bound struct {
	*StoredOverride
	namedValues
	limit int           // its index in the policy
	used  *atomic.Int64 // the last decision, microseconds since 1970; 0 = none in this process

	// made holds the variations in which this override is the first one. It is replaced as a whole.
	made atomic.Pointer[map[combination]*variation]
}

// combination names the numbers under the first override of the store.
type combination struct {
	planAndOverride
	others [engine.MaxLimits - 1]*bound
}

// maxCombinations bounds the variations of one override. Others with it come and go.
const maxCombinations = 64

// precedence compares two overrides of the store for one limit.
func precedence(a, b *bound) int {
	return cmp.Or(
		cmp.Compare(a.free, b.free),
		cmp.Compare(len(b.dimensions), len(a.dimensions)),
		cmp.Compare(b.Version, a.Version),
	)
}

// add adds an override. One caller at a time changes the overrides of a rule.
func (s *storedOverrides) add(b *bound) {
	set := s.setOf(b)
	set.set(b, append(slices.Clone(set.of(b)), b))
}

// remove removes an override.
func (s *storedOverrides) remove(b *bound) {
	set := s.setOf(b)
	set.set(b, slices.DeleteFunc(slices.Clone(set.of(b)), func(x *bound) bool { return x == b }))
}

// of returns the overrides of the set with the values of one.
func (s *storedSet) of(b *bound) []*bound {
	return s.allOf(s.hashWith(&b.key, b.prefix), &b.key, b.prefix)
}

// setOf returns the set of an override, which is made if need be.
func (s *storedOverrides) setOf(b *bound) *storedSet {
	var sets []*storedSet
	if old := s.sets.Load(); old != nil {
		sets = *old
	}
	of := &storedSet{
		secrets: [2]uint64{rand.Uint64(), rand.Uint64()},
		seed:    maphash.MakeSeed(),
		network: b.network,
		bits:    b.prefix.Bits(), // -1 without a network
	}
	for _, i := range b.dimensions {
		if i != b.network {
			of.values = append(of.values, i)
		}
	}
	for _, set := range sets {
		if set.network == of.network && set.bits == of.bits &&
			slices.Equal(set.values, of.values) {
			return set
		}
	}
	of.table.Store(newStoredTable(minBuckets))
	sets = append(slices.Clone(sets), of)
	s.sets.Store(&sets)
	return of
}

// inForce returns those that apply at an instant, the first for each limit, in their precedence.
func inForce(all []*bound, at time.Time) []*bound {
	at = instant(at)
	all = slices.DeleteFunc(all, func(b *bound) bool { return b.hasEnded(at) })
	slices.SortFunc(all, precedence)
	var limits [engine.MaxLimits]bool
	return slices.DeleteFunc(all, func(b *bound) bool {
		hasFirst := limits[b.limit]
		limits[b.limit] = true
		return hasFirst
	})
}

// find returns the overrides of the first set that has any for a key, and the sets behind it.
func (s *storedOverrides) find(key *weir.Key) (found []*bound, others []*storedSet) {
	sets := s.sets.Load()
	if sets == nil {
		return nil, nil
	}
	for i, set := range *sets {
		if found = set.find(key); found != nil {
			return found, (*sets)[i+1:]
		}
	}
	return nil, nil
}

// chooseStored returns the variation of a key with the overrides of the store that match it, those
// found and those of others; nil if none applies. of is the plan of the request and the override of
// the file.
func (r *Rule) chooseStored(
	key *weir.Key, of planAndOverride, at time.Time, found []*bound, others []*storedSet,
) *variation {
	var room [4]*bound
	all := append(room[:0], found...)
	for _, set := range others {
		all = append(all, set.find(key)...)
	}
	all = inForce(all, at)
	if len(all) == 0 {
		return nil
	}
	first, c := all[0], combination{planAndOverride: of}
	copy(c.others[:], all[1:])
	if made := first.made.Load(); made != nil {
		if v := (*made)[c]; v != nil {
			return v
		}
	}
	return r.makeStored(first, c, all)
}

// makeStored compiles a variation at its first use. Two callers may both do so, which is harmless.
func (r *Rule) makeStored(first *bound, c combination, all []*bound) *variation {
	v, err := r.compileStored(c.planAndOverride, all)
	if err != nil { // fitNumber has compiled the number of each with each plan
		v = r.chooseOfFile(c.planAndOverride)
	}
	next := map[combination]*variation{c: v}
	if made := first.made.Load(); made != nil && len(*made) < maxCombinations {
		for c, v := range *made {
			next[c] = v
		}
	}
	first.made.Store(&next)
	return v
}

// compileStored compiles the numbers of a plan, an override of the file and overrides of the store.
// If the capacity of a bucket in the file's override does not fit its rate, it has that of the plan.
func (r *Rule) compileStored(of planAndOverride, all []*bound) (*variation, error) {
	var fromFile *policy.Override
	if of.override >= 0 {
		fromFile = &r.Definition.Overrides[of.override]
		if fromFile.Plan != "" {
			of.plan = r.plans[fromFile.Plan]
		}
	}
	v := r.numbersOf(of.plan, fromFile)
	v.stored = slices.Clone(all)
	v.Why, v.Until = all[0].Reason, all[0].Until
	for _, b := range all {
		setMax(&v.Limits[b.limit], b.Max)
	}
	err := r.setLimiter(v)
	if err == nil || fromFile == nil {
		return v, err
	}
	plan := r.numbersOf(of.plan, nil) // its capacity fits, as that of the file's override does not
	for _, b := range all {
		setMax(&plan.Limits[b.limit], b.Max)
		v.Limits[b.limit].Burst = plan.Limits[b.limit].Burst
	}
	return v, r.setLimiter(v)
}

// setMax sets the units of a limit. The capacity of a bucket changes in the same ratio, rounded up:
// otherwise a bucket that refills ten times as fast would still grant no more at a time.
func setMax(l *weir.Limit, n int64) {
	if l.Burst > 0 && l.Max > 0 {
		high, low := bits.Mul64(uint64(l.Burst), uint64(n))
		low, carry := bits.Add64(low, uint64(l.Max-1), 0)
		burst := uint64(weir.MaxUnits)
		if high += carry; high < uint64(l.Max) {
			quotient, _ := bits.Div64(high, low, uint64(l.Max))
			burst = min(burst, quotient)
		}
		l.Burst = int64(max(burst, 1))
	}
	l.Max = n
}

// noteUse notes a decision by the overrides of the store, at most once a second for each.
func (v *variation) noteUse() {
	if len(v.stored) == 0 {
		return
	}
	now := time.Now().UnixMicro()
	for _, b := range v.stored {
		if now-b.used.Load() >= time.Second.Microseconds() {
			b.used.Store(now)
		}
	}
}

// Package recorder writes a sample of live calls to a trace, which weir replay reads.
//
// Keys are sampled, not calls: all calls of a sampled key are recorded, so its history is
// complete. A sample of one call in ten would show a tenth of each peak, and a replay would
// deny nothing. A limit that counts by fewer dimensions than the key needs the calls of
// other keys too. So the values of the dimensions that all limits share choose the sample.
//
// A call never waits for the disk. It is copied into a buffer with a bound, and one
// goroutine writes the buffer. Calls that do not fit are dropped and counted, and the trace
// has their number. Alternatives: a write by each call would wait for the disk, and a
// channel of calls takes longer than a lock around a slice.
//
// Calls of one key are recorded by several goroutines, out of order by as much as their
// answers were on the way. The writer sorts the calls of two periods by their instants.
package recorder

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Config configures a Recorder.
type Config struct {
	Path      string // the newest file; older ones are Path.1, Path.2, …
	FileBytes int64  // the most bytes of a file, at least 1 MiB
	Files     int    // the most files, with that of Path; at least 1
	Sample    int64  // one of Sample keys is recorded, 1 … weir.MaxUnits
	Secret    string // chooses the sample and hashes values; "" = a random one of this run
	Plain     bool   // values are written as they are
	Log       *observe.Log
}

const (
	maxCalls  = 1 << 15         // in the buffer
	wakeCalls = maxCalls / 2    // so many in the buffer wake the writer immediately
	maxBytes  = 4 << 20         // keys and ids in the buffer
	period    = time.Second     // between two writes
	closeTime = 5 * time.Second // for the last write
	hashBytes = 12              // written of a hash, as 16 characters

	// blockBytes are allocated together for keys and ids. One slice for all would be copied under
	// the lock when it grows.
	blockBytes = 64 << 10
)

// Recorder records calls. It is safe for concurrent use.
type Recorder struct {
	config Config
	seed   [32]byte     // chooses the sample
	mac    hash.Hash    // hashes values; used by the writer alone
	skew   atomic.Int64 // the engine's clock minus that of this process, in microseconds

	mu     sync.Mutex // protects the following
	calls  []call
	block  []byte // keys and ids; calls share full blocks
	bytes  int    // length of the keys and ids of calls
	closed bool

	Written atomic.Int64 // calls in the trace, also in files that were deleted since
	Dropped atomic.Int64 // calls that found the buffer full
	Failed  atomic.Int64 // calls that could not be written

	writer  writer
	wake    chan struct{} // the buffer is half full
	closing chan struct{}
	done    chan struct{} // closed by the writer
}

// call is a call in the buffer.
type call struct {
	of      *Policy
	op      engine.Op
	n       int64
	at      int64  // instant of the call
	granted int64  // instant of the grant that a refund takes back
	rank    uint8  // order among the calls of one instant
	data    []byte // the values of the key as keyenc encodes them, then the id
	key     int    // the bytes of data that are the key
	plan    string
	limit   string // a limit that a reset or a block names
	wait    int64  // the longest wait of an attempt, in microseconds
	start   int64  // the wait of its grant, in microseconds
	span    int64  // the life of an opened reservation or of a block, in microseconds
}

// Open opens the file and starts the writer. Older files are renamed first, so that each
// file is of one run. The error names the file.
func Open(c Config) (*Recorder, error) {
	if c.Secret == "" {
		c.Secret = rand.Text()
	}
	r := &Recorder{
		config:  c,
		mac:     hmac.New(sha256.New, []byte(c.Secret)),
		seed:    sha256.Sum256([]byte("weir sample\n" + c.Secret)),
		calls:   make([]call, 0, maxCalls),
		wake:    make(chan struct{}, 1),
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
	header := accesslog.TraceHeader{Version: accesslog.TraceVersion, Sample: c.Sample, Keys: "hashed"}
	if c.Plain {
		header.Keys = "plain"
	}
	r.writer = writer{
		Recorder: r,
		spare:    make([]call, 0, maxCalls),
		files:    files{path: c.Path, max: c.FileBytes, keep: c.Files, header: header},
	}
	if err := r.writer.files.open(); err != nil {
		return nil, err
	}
	go r.writer.run()
	return r, nil
}

// Close writes the recorded calls and closes the file, within five seconds. Later calls are
// dropped.
func (r *Recorder) Close() {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.closing)
	}
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-time.After(closeTime):
		r.logError(errors.New("the disk takes too long, so the last calls are lost"))
	}
}

// add adds a call with a copy of its data to the buffer.
func (r *Recorder) add(c call, data []byte) {
	r.mu.Lock()
	if r.closed || len(r.calls) == maxCalls || r.bytes+len(data) > maxBytes {
		r.mu.Unlock()
		r.Dropped.Add(1)
		return
	}
	if cap(r.block)-len(r.block) < len(data) {
		r.block = make([]byte, 0, max(blockBytes, len(data)))
	}
	start := len(r.block)
	r.block = append(r.block, data...)
	c.data = r.block[start:len(r.block):len(r.block)]
	r.calls = append(r.calls, c)
	r.bytes += len(data)
	full := len(r.calls) == wakeCalls
	r.mu.Unlock()
	if full {
		select {
		case r.wake <- struct{}{}:
		default:
		}
	}
}

// logError logs a failure of the file.
func (r *Recorder) logError(err error) {
	if r.config.Log != nil {
		r.config.Log.Line(slog.LevelError, "calls could not be recorded; decisions go on", "error", err)
	}
}

// Policy records the calls of one policy. A nil Policy records nothing.
type Policy struct {
	to         *Recorder
	rule       *enforce.Rule
	name       string
	dimensions []string
	planBy     string                // the value that chooses a plan; "" if it is a dimension
	plans      []string              // names of plans
	public     map[enforce.Pair]bool // values that the policy file names

	// sampleBy are the indexes of the dimensions that choose the sample: those by which every limit
	// counts, or all if there are none.
	sampleBy []int
}

// Policy returns the recorder of a rule. Its file names some values of keys: those of
// overrides, and the plans if plan-by is a dimension. These stay readable, because a replay
// finds overrides and plans by them. So does the network of an address that an override names.
func (r *Recorder) Policy(rule *enforce.Rule) *Policy {
	p := &Policy{
		to:         r,
		rule:       rule,
		name:       rule.Name,
		dimensions: rule.Dimensions(),
		public:     map[enforce.Pair]bool{},
	}
	for _, t := range rule.Plans {
		p.plans = append(p.plans, t.Name)
	}
	if slices.Contains(p.dimensions, rule.PlanBy) {
		for _, name := range p.plans {
			p.public[enforce.Pair{Name: rule.PlanBy, Value: name}] = true
		}
	} else {
		p.planBy = rule.PlanBy
	}
	for _, o := range rule.Overrides {
		for _, d := range o.For {
			p.public[d] = true
		}
	}
	p.sampleBy = slices.Sorted(slices.Values(rule.Compiled.Limits[0].Shared))
	if len(p.sampleBy) == 0 { // some limit then counts keys beyond the sample as well
		for i := range p.dimensions {
			p.sampleBy = append(p.sampleBy, i)
		}
	}
	return p
}

// samples reports whether the calls of a key are recorded.
func (p *Policy) samples(key *weir.Key) bool {
	if p == nil {
		return false
	}
	if p.to.config.Sample <= 1 || len(p.sampleBy) == 0 {
		return true
	}
	var space [512]byte
	data := append(space[:0], p.to.seed[:]...)
	for _, i := range p.sampleBy {
		if key.Value(i) == "" { // a reset that concerns keys within the sample and others
			return true
		}
		data = keyenc.Append(data, key.Value(i))
	}
	sum := sha256.Sum256(data)
	return binary.LittleEndian.Uint64(sum[:])%uint64(p.to.config.Sample) == 0
}

// The ranks order the calls of one instant as they may have been decided: grants before
// denials, because a denial leaves the grants that were possible possible. Grants that wait are
// ordered by their starts.
const (
	granted = iota
	grantedInPart
	denied
)

// attempted returns the call of an attempt or a record that was granted in full.
func attempted(r *enforce.Request, d *weir.Decision) call {
	return call{
		at:    d.At.UnixMicro(),
		n:     r.N,
		op:    r.Op,
		rank:  granted,
		wait:  r.MaxWait.Microseconds(),
		start: d.StartAfter.Microseconds(),
	}
}

// Decided records an attempt or a record with its decision.
func (p *Policy) Decided(r *enforce.Request, d *weir.Decision) {
	c := attempted(r, d)
	switch {
	case !d.Allowed:
		c.rank = denied
	case d.Granted < r.N:
		c.rank = grantedInPart
	}
	p.add(&r.Target, c, "")
}

// Opened records an attempt that opened a reservation of an id, for a time to live.
func (p *Policy) Opened(r *enforce.Request, d *weir.Decision, id string, ttl time.Duration) {
	c := attempted(r, d)
	c.span = ttl.Microseconds()
	if d.Granted < r.N {
		c.rank = grantedInPart
	}
	p.add(&r.Target, c, id)
}

// Settled records the settlement of the reservation r.ID with n units.
func (p *Policy) Settled(r *enforce.Request, d *weir.Decision, n int64) {
	p.add(&r.Target, call{at: d.At.UnixMicro(), n: n, op: engine.Settle, rank: granted}, r.ID)
}

// Extended records an extension of the reservation r.ID, which its decision may have denied.
func (p *Policy) Extended(r *enforce.Request, d *weir.Decision) {
	c := call{at: d.At.UnixMicro(), n: r.N, op: engine.Extend, rank: granted}
	if !d.Allowed {
		c.rank = denied
	}
	p.add(&r.Target, c, r.ID)
}

// Refunded records a refund, now, of up to n units of the grant at an instant in
// microseconds since 1970, once for the id unless it is "".
func (p *Policy) Refunded(t *enforce.Target, granted, n int64, id string) {
	if granted >= 0 {
		p.add(t, call{granted: granted, n: n, op: engine.Refund}, id)
	}
}

// Changed records a reset now, or a block at an instant, with a key of these dimensions. One that
// names limits has a line for each. The strings of r are not kept.
func (p *Policy) Changed(r *enforce.Request, at time.Time, dimensions []string) {
	var t enforce.Target
	for _, name := range p.dimensions {
		value := "" // the named limits do not count by it
		if i := slices.Index(dimensions, name); i >= 0 {
			value = r.Key.Value(i)
		}
		t.Key.Append(value)
	}
	c := call{n: 1, op: r.Op, span: r.For.Microseconds()}
	if r.Op == engine.Block {
		c.at = at.UnixMicro()
	}
	if len(r.Limits) == 0 {
		p.add(&t, c, "")
	}
	for _, limit := range r.Limits {
		c.limit = strings.Clone(limit)
		p.add(&t, c, "")
	}
}

// add records a call, if its key is sampled. Refunds and resets return no instant. They get the
// present one by the engine's clock, as far as the last decision shows it.
func (p *Policy) add(t *enforce.Target, c call, id string) {
	if !p.samples(&t.Key) {
		return
	}
	if now := time.Now().UnixMicro(); c.at > 0 {
		p.to.skew.Store(c.at - now)
	} else {
		c.at = now + p.to.skew.Load()
	}
	var space [256]byte
	data := space[:0]
	for i := range p.dimensions {
		data = keyenc.Append(data, t.Key.Value(i))
	}
	c.of = p
	c.key = len(data)
	if p.planBy != "" && t.Plan > 0 {
		c.plan = p.plans[t.Plan-1]
	}
	p.to.add(c, append(data, id...))
}

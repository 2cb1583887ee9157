package memory

import (
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/keyenc"
)

// Operation is an operation with an idempotency key, which is remembered. Instants are
// microseconds since 1970.
type Operation struct {
	Name  string // encodes the policy's name, the key with its dimensions, and the idempotency key
	Asked int64  // units of the request
	From  int64  // refund: the instant of the grant
	Until int64  // the operation is remembered before this instant

	// The answer. It is stored in a third of the bytes of an engine.Result.
	At         int64
	Granted    int64
	Remaining  int64
	RetryAfter time.Duration
	ResetAfter time.Duration
	Bound      *Bound // nil if no limit denied or cut the attempt, no block ran, and it starts now

	Reservation *Reservation // that the attempt opened, or nil

	Op      engine.Op
	Allowed bool
	Opens   bool // an attempt with a time to live
}

// Bound is the part of an answer that few have: about the limit that denied or cut an attempt,
// about a block, and about an appointment.
type Bound struct {
	Limit     string // "" if none did
	Kind      engine.Kind
	Max, Used int64
	Window    time.Duration
	Blocked   time.Duration // rest of a block that ran

	StartAfter time.Duration // wait from At until the use begins (R18)
}

// newOperation returns the operation of a call with its result, and with the numbers of its limit.
func newOperation(c *engine.Call, name string, d *engine.Result) Operation {
	o := Operation{
		Name:       name,
		Asked:      c.N,
		At:         d.At.UnixMicro(),
		Granted:    d.Granted,
		Remaining:  d.Remaining,
		RetryAfter: d.RetryAfter,
		ResetAfter: d.ResetAfter,
		Op:         c.Op,
		Allowed:    d.Allowed,
		Opens:      c.TTL > 0,
	}
	o.Until = o.At + d.StartAfter.Microseconds() + c.Rules.IdempotencyTTL.Microseconds()
	if c.Op == engine.Refund {
		o.From = c.From
	}
	if d.Limit != "" || d.Blocked > 0 || d.StartAfter > 0 {
		explained := *d
		c.Rules.Explain(&explained)
		o.Bound = &Bound{
			Limit:   d.Limit,
			Kind:    explained.Kind,
			Max:     explained.Max,
			Used:    explained.Used,
			Window:  explained.Window,
			Blocked: d.Blocked,

			StartAfter: d.StartAfter,
		}
	}
	return o
}

// Start returns the instant at which the use of the granted units may begin (R18).
func (o *Operation) Start() int64 {
	if o.Bound == nil {
		return o.At
	}
	return o.At + o.Bound.StartAfter.Microseconds()
}

// result returns the answer of a call that is repeated at an instant. Its StartAfter is the time
// that is left then.
func (o *Operation) result(at int64) engine.Result {
	d := engine.Result{
		Allowed:    o.Allowed,
		Granted:    o.Granted,
		Remaining:  o.Remaining,
		RetryAfter: o.RetryAfter,
		ResetAfter: o.ResetAfter,
		At:         time.UnixMicro(o.At),
	}
	if b := o.Bound; b != nil {
		d.Limit, d.Kind = b.Limit, b.Kind
		d.Max, d.Used = b.Max, b.Used
		d.Window, d.Blocked = b.Window, b.Blocked
		d.StartAfter = min(b.StartAfter, span(max(0, o.Start()-at)))
	}
	return d
}

// Newest returns the instant of the newest change of the operation.
func (o *Operation) Newest() int64 {
	r := o.Reservation
	if r == nil {
		return o.At
	}
	newest := max(o.At, r.Hold, r.SettledAt)
	if r.Extension != nil {
		newest = max(newest, r.Extension.At)
	}
	return newest
}

// The bytes of an operation, without its name: the structs, and its places in the map and in the
// heap.
const (
	operationBytes   = 112 + 52
	boundBytes       = 80
	reservationBytes = 64
	extensionBytes   = 48
)

// bytes is the memory of the operation.
func (o *Operation) bytes() int {
	n := operationBytes + len(o.Name)
	if o.Bound != nil {
		n += boundBytes
	}
	if o.Reservation != nil {
		n += reservationBytes
		if o.Reservation.Extension != nil {
			n += extensionBytes
		}
	}
	return n
}

// Split returns the name of the policy, the names and values of the key's dimensions, and
// the idempotency key. It reports false for a name that no engine makes.
func (o *Operation) Split() (policy string, dimensions, values []string, id string, ok bool) {
	parts, ok := keyenc.Values([]byte(o.Name))
	n := len(parts)
	if !ok || n < 2 || n%2 != 0 {
		return "", nil, nil, "", false
	}
	for i := 1; i < n-1; i += 2 {
		dimensions, values = append(dimensions, parts[i]), append(values, parts[i+1])
	}
	return parts[0], dimensions, values, parts[n-1], true
}

// operationName consists of the policy's name, the names and values of the key's dimensions,
// and the id. Each part stands behind its length, so that no two operations share a name (R14).
// Dimensions stand in the order of their names, so that a change of the order of limits keeps
// the operations (R12).
func operationName(p *engine.Compiled, k *engine.Key, id string) string {
	var room [256]byte
	return string(appendName(room[:0], p, k, id))
}

// appendName appends the name of an operation to b.
func appendName(b []byte, p *engine.Compiled, k *engine.Key, id string) []byte {
	return keyenc.Append(appendOwner(b, p, k), id)
}

// appendOwner appends the part of an operation's name that all operations of a key share.
func appendOwner(b []byte, p *engine.Compiled, k *engine.Key) []byte {
	b = keyenc.Append(b, p.Name)
	var order [keyenc.MaxValues]int
	dims := order[:0]
	for i := range p.Dimensions {
		dims = append(dims, i)
	}
	slices.SortFunc(dims, func(i, j int) int {
		return strings.Compare(p.Dimensions[i], p.Dimensions[j])
	})
	for _, i := range dims {
		b = keyenc.Append(keyenc.Append(b, p.Dimensions[i]), k.Value(i))
	}
	return b
}

package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/reserve"
	"github.com/weirlimit/weir/cmd/weir/internal/strictjson"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// scratch is the reusable memory of one request: the parsed request, its decision and its
// answer. States of decisions point into it, so nothing of it may be kept.
type scratch struct {
	call
	to     *enforce.Rule  // that the call names; nil for a settlement and a batch
	target enforce.Target // its key
	life   time.Duration  // of a reservation
	batch  []call         // of /v1/checks

	together bool // the batch is charged all or none

	reader  callReader
	request enforce.Request // of a decision
	outcome enforce.Outcome
	states  [weir.MaxLimits]weir.LimitState
	body    []byte // of the request
	answer  []byte
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release returns s to the pool. It drops buffers that a long body has grown, since the
// next body may be short and slow.
func (s *scratch) release() {
	if cap(s.body) > 2*shortBody || cap(s.answer) > 4*shortBody {
		s.body, s.answer = nil, nil
		s.reader.Reset(nil)
	}
	clear(s.key)
	s.call, s.to, s.target, s.outcome, s.batch, s.together = call{key: s.key[:0]}, nil, enforce.Target{}, enforce.Outcome{}, nil, false
	s.request = enforce.Request{}
	scratches.Put(s)
}

// parse reads the body of r, which may hold the members takes, into s and finds its
// policy and target.
func (a *API) parse(w http.ResponseWriter, r *http.Request, s *scratch, takes member) (err error) {
	if s.body, err = a.readBody(w, r, s.body); err != nil {
		return err
	}
	if takes == batchMembers {
		return s.parseBatch(r)
	}
	if err = s.reader.call(s.body, takes, &s.call); err != nil || takes&policyMember == 0 {
		return err
	}
	if s.to, err = find(a.Policies(), s.policy, weir.ErrInput); err != nil {
		return err
	}
	if s.target, err = s.to.Target(s.key); err != nil {
		return err
	}
	if takes&idMember != 0 && r.Header[idempotencyField] != nil {
		s.id, err = idempotencyKey(r.Header, s.id)
	}
	if err == nil && takes&ttlMember != 0 {
		s.life, err = reserve.TTL(s.to, s.ttl, `"ttl_ms"`)
	}
	return err
}

const (
	// MaxBody is the largest request body, in bytes: sixteen key values of 1 KiB with
	// every byte escaped as \u0000 fit.
	MaxBody = 64 << 10

	// shortBody is the most of a body, in bytes, that is read without a place in
	// API.Bodies. Nearly every body is shorter.
	shortBody = 4 << 10

	// longBodies is how many longer bodies are received at once: 16 MiB of them.
	longBodies = 256
)

var errLongBody = calls.BadInput("the body is longer than 64 KiB; a call fits in far less, and checks can be sent in several batches")

// readBody reads the body of r into buf, at most MaxBody bytes. The buffer grows with
// the received bytes, and beyond shortBody only with a place in Bodies, so half-sent
// bodies take little memory together. The read timeout of the server is the deadline.
func (a *API) readBody(w http.ResponseWriter, r *http.Request, buf []byte) ([]byte, error) {
	buf = buf[:0]
	if r.ContentLength > MaxBody {
		stopReading(w, r)
		return buf, errLongBody
	}
	long := false
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, 512)
		}
		end := min(cap(buf), MaxBody+1)
		if !long {
			end = min(end, shortBody)
		}
		n, err := r.Body.Read(buf[len(buf):end])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > MaxBody:
			stopReading(w, r)
			return buf, errLongBody
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, calls.BadInput("the body could not be read to its end; send all of Content-Length, and in time")
		case len(buf) == shortBody && !long:
			if err := a.Bodies.Enter(); err != nil {
				stopReading(w, r)
				return buf, err
			}
			long = true
			defer a.Bodies.Leave()
		}
	}
}

// stopReading ends the reading of a body that no handler reads. Otherwise net/http waits
// for the rest of it, up to the read timeout, before it sends the answer.
func stopReading(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		http.NewResponseController(w).SetReadDeadline(time.Now())
	}
}

// call is the content of a body.
type call struct {
	policy  string
	key     reserve.Pairs
	n       int64  // units, 0 … weir.MaxUnits; default 1
	granted int64  // the instant of a grant to refund, microseconds since 1970; -1 = missing
	id      string // the idempotency key, 1 … weir.MaxIDBytes bytes; "" = none
	unnamed bool   // a check of a batch has no policy

	ttl    int64  // of a reservation, in milliseconds; 0 = default
	token  string // of a reservation
	actual int64  // units that were used, or reserve.All

	limit string // the limit to count; "" = the only one
	last  int64  // the span to count, in milliseconds
}

// member is a set of the members of a body.
type member uint16

const (
	policyMember member = 1 << iota
	keyMember
	unitsMember
	grantedMember // granted_at_us
	atMember      // the same instant, as the member "at" of an answer
	idMember
	ttlMember // ttl_ms
	tokenMember
	actualMember
	checksMember   // of a batch
	togetherMember // the same
	limitMember    // of a count
	lastMember     // last_ms
)

// The members that each call takes.
const (
	peekMembers     = policyMember | keyMember | unitsMember
	decisionMembers = peekMembers | idMember
	countMembers    = policyMember | keyMember | limitMember | lastMember
	refundMembers   = decisionMembers | grantedMember | atMember
	reserveMembers  = decisionMembers | ttlMember
	settleMembers   = tokenMember | actualMember
	releaseMembers  = tokenMember
	batchMembers    = checksMember | togetherMember
)

var memberNames = []string{"policy", "key", "n", "granted_at_us", "at", "id", "ttl_ms", "reservation", "actual", "checks", "together", "limit", "last_ms"}

// bodies describes the members of each call, with an example.
var bodies = map[member]struct{ members, example string }{
	peekMembers:     {"policy, key, n", `{"policy":"…","key":{…},"n":1}`},
	decisionMembers: {"policy, key, n, id", `{"policy":"…","key":{…},"n":1}`},
	reserveMembers:  {"policy, key, n, id, ttl_ms", `{"policy":"…","key":{…},"n":1}`},
	refundMembers:   {"policy, key, n, id, and granted_at_us or at", `{"policy":"…","key":{…},"n":1}`},
	countMembers:    {"policy, key, limit, last_ms", `{"policy":"…","key":{…},"last_ms":20000}`},
	settleMembers:   {"reservation and actual", `{"reservation":"…","actual":1}`},
	releaseMembers:  {"reservation", `{"reservation":"…"}`},
	batchMembers:    {"checks and together", `{"checks":[{"policy":"…","key":{…},"n":1}]}`},
}

// callReader reads a call, or a batch of calls. All errors but those of complete come from
// the reader.
type callReader struct {
	strictjson.Reader
	into        *call
	takes, seen member
	batch       []call
	together    bool
}

// call reads {"policy":"…","key":{…},"n":1} into c. Members may come in any order; unknown
// members, repeated members and text behind the object are errors. It reuses the memory
// of the key.
func (r *callReader) call(b []byte, takes member, c *call) error {
	*c = call{n: 1, granted: -1, key: c.key[:0]}
	if takes&actualMember != 0 {
		c.actual = reserve.All
	}
	r.into, r.takes, r.seen = c, takes, 0
	if err := r.body(b); err != nil {
		return err
	}
	return r.complete()
}

// body reads the object that a body is.
func (r *callReader) body(b []byte) error {
	if len(bytes.TrimLeft(b, " \t\r\n")) == 0 {
		return calls.BadInput("the body is empty; send " + bodies[r.takes].example)
	}
	r.Reset(b)
	err := r.Object("the body must be an object, {…}", r.member)
	if err == nil {
		err = r.End("more text behind the object; send one object")
	}
	if err != nil {
		return calls.BadInput("body, " + err.Error())
	}
	return nil
}

// member reads a member.
func (r *callReader) member(name []byte) (err error) {
	var m member
	for i, known := range memberNames {
		if string(name) == known {
			m = r.takes & (1 << i)
		}
	}
	if m == 0 {
		return r.Fault("unknown member " + answer.Shown(string(name)) + "; this call takes " + bodies[r.takes].members)
	}
	r.seen |= m
	switch c := r.into; m {
	case policyMember:
		c.policy, err = r.text(`"policy" must be a string, in "…"`)
	case keyMember:
		err = r.Object(`"key" must be an object, {…}`, r.dimension)
	case unitsMember:
		c.n, err = r.units(`"n"`)
	case grantedMember:
		c.granted, err = r.whole(`"granted_at_us"`, "", weir.MaxInstant)
	case atMember:
		c.granted, err = r.instant()
	case idMember:
		if c.id, err = r.text(`"id" must be a string, in "…"`); err == nil && (c.id == "" || len(c.id) > weir.MaxIDBytes) {
			err = r.Fault(`"id" must hold 1 to ` + strconv.Itoa(weir.MaxIDBytes) + " bytes; leave it away for an operation without one")
		}
	case ttlMember:
		if c.ttl, err = r.units(`"ttl_ms"`); err == nil && c.ttl == 0 {
			err = r.Fault(`"ttl_ms" must be 1 or more; leave it away for as long as can be`)
		}
	case tokenMember:
		c.token, err = r.text(`"reservation" must be a string, in "…"`)
	case actualMember:
		c.actual, err = r.units(`"actual"`)
	case checksMember:
		err = r.checks()
	case limitMember:
		if c.limit, err = r.text(`"limit" must be a string, in "…"`); err == nil && c.limit == "" {
			err = r.Fault(`"limit" must be the name of a limit; leave it away for the only limit of a policy`)
		}
	case lastMember:
		c.last, err = r.whole(`"last_ms"`, "1 to the window of the limit in milliseconds", math.MaxInt64)
	case togetherMember:
		r.together, err = r.Bool(`"together" must be true or false`)
	}
	return err
}

// text reads a string.
func (r *callReader) text(want string) (string, error) {
	b, err := r.Text(want)
	return string(b), err
}

// dimension reads a dimension of the key.
func (r *callReader) dimension(name []byte) error {
	dimension := string(name)
	if !r.IsText() {
		_, err := r.Text("the value of " + answer.Shown(dimension) + ` must be a string, in "…"`)
		return err
	}
	value, err := r.text("")
	if err != nil {
		return err
	}
	var problem string
	if r.into.key, problem = r.into.key.Add(dimension, value); problem != "" {
		return r.Fault(problem)
	}
	return nil
}

// units reads a whole number of 0 … weir.MaxUnits.
func (r *callReader) units(name string) (int64, error) {
	return r.whole(name, "", weir.MaxUnits)
}

// whole reads a whole number of 0 … most. bounds is the range in the error; "" = 0 to most.
func (r *callReader) whole(name, bounds string, most int64) (int64, error) {
	n, err := r.Number("")
	if err != nil || n < 0 || n > most {
		return 0, r.Fault(name + " must be a whole number, " + cmp.Or(bounds, "0 to "+strconv.FormatInt(most, 10)) + ", in digits alone: no quotes, sign, fraction or exponent")
	}
	return n, nil
}

// instant reads an instant as the member "at" of an answer holds it.
func (r *callReader) instant() (int64, error) {
	v, err := r.text(`"at" must be a string, in "…"`)
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if us := t.UnixMicro(); err == nil && t.Equal(time.UnixMicro(us)) && us >= 0 && us <= weir.MaxInstant {
		return us, nil
	}
	return 0, r.Fault(`"at" must be the instant of the grant, as in its answer, such as "2026-11-20T13:07:31.000005Z"`)
}

var errNoPolicy = calls.BadInput(`"policy" is missing; GET /v1/policies lists the policies`)

// complete reports a missing member, or a contradiction.
func (r *callReader) complete() error {
	const instant = grantedMember | atMember
	switch {
	case r.takes&^r.seen&tokenMember != 0:
		return calls.BadInput(`"reservation" is missing: the token in the answer to /v1/reserve`)
	case r.takes&^r.seen&policyMember != 0:
		return errNoPolicy
	case r.takes&^r.seen&lastMember != 0:
		return calls.BadInput(`"last_ms" is missing: the span to count, 1 to the window of the limit in milliseconds`)
	case r.seen&instant == instant:
		return calls.BadInput(`"at" and "granted_at_us" are the same instant; give one of them`)
	case r.takes&instant != 0 && r.seen&instant == 0:
		return calls.BadInput(`"granted_at_us" is missing: the instant of the grant to take back, in microseconds since 1970 (or "at" of its answer)`)
	}
	return nil
}

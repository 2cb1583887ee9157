package httpapi

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	op     weir.Op
	via    *calls.Via
	to     *enforce.Rule  // that the call names; nil for a settlement and a batch
	target enforce.Target // its key
	life   time.Duration  // of a reservation
	batch  []call         // of /v1/checks

	together bool // the batch is charged all or none

	json        strictjson.Reader
	into        *call // that is read
	takes, seen member

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
		s.json.Reset(nil)
	}
	clear(s.key)
	s.call, s.into, s.to, s.target, s.outcome, s.batch, s.together = call{key: s.key[:0]}, nil, nil, enforce.Target{}, enforce.Outcome{}, nil, false
	s.request = enforce.Request{}
	scratches.Put(s)
}

// listPolicies is the next step after an unknown policy.
const listPolicies = "GET /v1/policies lists the policies"

// parse reads the body of r, which may hold the members takes, into s and finds its
// policy and target.
func (a *API) parse(w http.ResponseWriter, r *http.Request, s *scratch, takes member) (err error) {
	if s.body, err = a.readBody(w, r, s.body); err != nil {
		return err
	}
	if takes == batchMembers && r.Header[idempotencyField] != nil {
		return calls.BadInput("the header field " + idempotencyField + ` cannot name several operations; give each check an "id"`)
	}
	if err = s.read(takes); err != nil || takes&policyMember == 0 {
		return err
	}
	if s.to, err = a.Policies().Rule(s.policy); err != nil {
		return calls.NoPolicy(err, weir.ErrInput, listPolicies)
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

// read reads the body {"policy":"…","key":{…},"n":1} into s.call, or a batch into s.batch.
// Members may come in any order; unknown members, repeated members and text behind the object
// are errors. It reuses the memory of the key.
func (s *scratch) read(takes member) error {
	s.call = call{n: 1, granted: -1, key: s.key[:0]}
	if takes&actualMember != 0 {
		s.actual = reserve.All
	}
	s.into, s.takes, s.seen = &s.call, takes, 0
	if len(bytes.TrimLeft(s.body, " \t\r\n")) == 0 {
		return calls.BadInput("the body is empty; send " + bodies[takes].example)
	}
	s.json.Reset(s.body)
	err := s.json.Object("the body must be an object, {…}", s.member)
	if err == nil {
		err = s.json.End("more text behind the object; send one object")
	}
	if err != nil {
		return calls.BadInput("body, " + err.Error())
	}
	const instant = grantedMember | atMember
	switch missing := takes &^ s.seen; {
	case takes&checksMember != 0 && len(s.batch) == 0:
		return calls.BadInput(`"checks" is missing or empty; send ` + bodies[batchMembers].example)
	case missing&tokenMember != 0:
		return calls.BadInput(`"reservation" is missing: the token in the answer to /v1/reserve`)
	case missing&policyMember != 0:
		return errNoPolicy
	case missing&lastMember != 0:
		return calls.BadInput(`"last_ms" is missing: the span to count, 1 to the window of the limit in milliseconds`)
	case s.seen&instant == instant:
		return calls.BadInput(`"at" and "granted_at_us" are the same instant; give one of them`)
	case missing&instant == instant:
		return calls.BadInput(`"granted_at_us" is missing: the instant of the grant to take back, in microseconds since 1970 (or "at" of its answer)`)
	}
	return nil
}

// member reads a member.
func (s *scratch) member(name []byte) (err error) {
	var m member
	for i, known := range memberNames {
		if string(name) == known {
			m = s.takes & (1 << i)
		}
	}
	if m == 0 {
		return s.json.Fault("unknown member " + answer.Shown(string(name)) + "; this call takes " + bodies[s.takes].members)
	}
	s.seen |= m
	switch c := s.into; m {
	case policyMember:
		c.policy, err = s.text(`"policy" must be a string, in "…"`)
	case keyMember:
		err = s.json.Object(`"key" must be an object, {…}`, s.dimension)
	case unitsMember:
		c.n, err = s.units(`"n"`)
	case grantedMember:
		c.granted, err = s.whole(`"granted_at_us"`, "", weir.MaxInstant)
	case atMember:
		c.granted, err = s.instant()
	case idMember:
		if c.id, err = s.text(`"id" must be a string, in "…"`); err == nil && (c.id == "" || len(c.id) > weir.MaxIDBytes) {
			err = s.json.Fault(`"id" must hold 1 to ` + strconv.Itoa(weir.MaxIDBytes) + " bytes; leave it away for an operation without one")
		}
	case ttlMember:
		if c.ttl, err = s.units(`"ttl_ms"`); err == nil && c.ttl == 0 {
			err = s.json.Fault(`"ttl_ms" must be 1 or more; leave it away for as long as can be`)
		}
	case tokenMember:
		c.token, err = s.text(`"reservation" must be a string, in "…"`)
	case actualMember:
		c.actual, err = s.units(`"actual"`)
	case checksMember:
		err = s.readChecks()
	case limitMember:
		if c.limit, err = s.text(`"limit" must be a string, in "…"`); err == nil && c.limit == "" {
			err = s.json.Fault(`"limit" must be the name of a limit; leave it away for the only limit of a policy`)
		}
	case lastMember:
		c.last, err = s.whole(`"last_ms"`, "1 to the window of the limit in milliseconds", math.MaxInt64)
	case togetherMember:
		s.together, err = s.json.Bool(`"together" must be true or false`)
	}
	return err
}

// text reads a string.
func (s *scratch) text(want ...string) (string, error) {
	b, err := s.json.Text(want...)
	return string(b), err
}

// dimension reads a dimension of the key.
func (s *scratch) dimension(name []byte) error {
	dimension := string(name)
	value, err := s.text("the value of ", answer.Shown(dimension), ` must be a string, in "…"`)
	if err != nil {
		return err
	}
	var problem string
	if s.into.key, problem = s.into.key.Add(dimension, value); problem != "" {
		return s.json.Fault(problem)
	}
	return nil
}

// units reads a whole number of 0 … weir.MaxUnits.
func (s *scratch) units(name string) (int64, error) {
	return s.whole(name, "", weir.MaxUnits)
}

// whole reads a whole number of 0 … most. bounds is the range in the error; "" = 0 to most.
func (s *scratch) whole(name, bounds string, most int64) (int64, error) {
	n, err := s.json.Number("")
	if err != nil || n < 0 || n > most {
		return 0, s.json.Fault(name + " must be a whole number, " + cmp.Or(bounds, "0 to "+strconv.FormatInt(most, 10)) + ", in digits alone: no quotes, sign, fraction or exponent")
	}
	return n, nil
}

// instant reads an instant as the member "at" of an answer holds it.
func (s *scratch) instant() (int64, error) {
	v, err := s.text(`"at" must be a string, in "…"`)
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if us := t.UnixMicro(); err == nil && t.Equal(time.UnixMicro(us)) && us >= 0 && us <= weir.MaxInstant {
		return us, nil
	}
	return 0, s.json.Fault(`"at" must be the instant of the grant, as in its answer, such as "2026-11-20T13:07:31.000005Z"`)
}

var errNoPolicy = calls.BadInput(`"policy" is missing; GET /v1/policies lists the policies`)

// maxChecks is the largest number of checks in a batch: as many as one round trip to Redis
// takes.
const maxChecks = 128

// readChecks reads the array of checks. An error of one check, such as an unknown policy, is
// left to its answer; text that is no batch is an error of the whole body.
func (s *scratch) readChecks() error {
	return s.json.Array(`"checks" must be an array, […]`, func() error {
		index := len(s.batch)
		if index == maxChecks {
			return s.json.Fault("more than " + strconv.Itoa(maxChecks) + " checks; send them in several batches")
		}
		s.batch = append(s.batch, call{n: 1, granted: -1})
		s.into, s.takes, s.seen = &s.batch[index], decisionMembers, 0
		err := s.json.Object("a check must be an object, {…}", s.member)
		s.into.unnamed = s.seen&policyMember == 0
		s.takes = batchMembers
		if err != nil {
			return fmt.Errorf("checks[%d]: %w", index, err)
		}
		return nil
	})
}

// idempotencyField is the header field that names an operation, as the member "id" does
// (draft-ietf-httpapi-idempotency-key-header).
const idempotencyField = "Idempotency-Key"

// idempotencyKey returns the idempotency key of the header, or else of the body; "" for
// none. Two different keys are an error.
func idempotencyKey(h http.Header, body string) (string, error) {
	id, given, err := idIn(h, idempotencyField)
	switch {
	case err != nil:
		return "", err
	case !given:
		return body, nil
	case body != "" && body != id:
		return "", calls.BadInput(idempotencyField + ` and "id" name two operations; give one of them`)
	}
	return id, nil
}

// idIn reads an idempotency key from a header field: a string in quotes, as the draft
// requires, or the bare text that most clients send.
func idIn(h http.Header, field string) (id string, given bool, err error) {
	lines := h.Values(field)
	switch len(lines) {
	case 0:
		return "", false, nil
	case 1:
	default:
		return "", true, calls.BadInput("the header field " + field + " is there more than once; an operation has one id")
	}
	id, ok := lines[0], true
	if strings.HasPrefix(id, `"`) {
		id, ok = unquoted(id)
	}
	for i := range len(id) {
		ok = ok && ' ' <= id[i] && id[i] <= '~'
	}
	if !ok || id == "" || len(id) > weir.MaxIDBytes {
		return "", true, calls.BadInput("the header field " + field + " must hold 1 to " + strconv.Itoa(weir.MaxIDBytes) +
			` characters of ASCII, bare or in "…"; leave it away for an operation without an id`)
	}
	return id, true, nil
}

// unquoted reads a string of RFC 9651: in quotes, with \" and \\ as escapes.
func unquoted(s string) (text string, ok bool) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), i == len(s)-1
		case '\\':
			if i++; i == len(s) || s[i] != '"' && s[i] != '\\' {
				return "", false
			}
		}
		b.WriteByte(s[i])
	}
	return "", false
}

// CheckGateID returns an error for a name that is no header field.
func CheckGateID(field string) error {
	for i := range len(field) {
		if c := field[i] | 0x20; !('a' <= c && c <= 'z' || '0' <= field[i] && field[i] <= '9' || field[i] == '-') {
			return calls.BadInput(answer.Shown(field) + " is no name of a header field: letters, digits and dashes")
		}
	}
	return nil
}

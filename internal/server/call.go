package server

import (
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/strictjson"
)

// call is what a request asks for.
type call struct {
	policy  string
	key     pairs
	n       int64  // units, 0 … weir.MaxUnits; 1 unless said otherwise
	granted int64  // the instant a refund is for, microseconds since 1970; -1 = not said
	id      string // of the operation, 1 … weir.MaxIDBytes bytes; "" = none

	ttl         int64  // of a reservation, in milliseconds; 0 = not said
	reservation string // the id of one
	actual      int64  // units that were used
}

// member is a set of the members of a body.
type member uint16

const (
	policyMember member = 1 << iota
	keyMember
	unitsMember
	grantedMember // granted_at_us
	atMember      // the same as the answer to the grant told it
	idMember
	ttlMember // ttl_ms
	reservationMember
	actualMember
)

// What calls take.
const (
	peekMembers     = policyMember | keyMember | unitsMember
	decisionMembers = peekMembers | idMember
	refundMembers   = decisionMembers | grantedMember | atMember
	reserveMembers  = decisionMembers | ttlMember
	settleMembers   = reservationMember | actualMember
	releaseMembers  = reservationMember
)

var memberNames = []string{"policy", "key", "n", "granted_at_us", "at", "id", "ttl_ms", "reservation", "actual"}

// memberNamed returns the member of that name among those the call takes, or 0.
func memberNamed(name []byte, takes member) member {
	for i, known := range memberNames {
		if string(name) == known {
			return takes & (1 << i)
		}
	}
	return 0
}

func (m member) String() string {
	switch m {
	case refundMembers:
		return "policy, key, n, id, and granted_at_us or at"
	case decisionMembers:
		return "policy, key, n, id"
	case reserveMembers:
		return "policy, key, n, id, ttl_ms"
	case settleMembers:
		return "reservation and actual"
	case releaseMembers:
		return "reservation"
	}
	return "policy, key, n"
}

// example is a body with what a call takes.
func (m member) example() string {
	switch {
	case m == settleMembers:
		return `{"reservation":"…","actual":1}`
	case m == releaseMembers:
		return `{"reservation":"…"}`
	}
	return `{"policy":"…","key":{…},"n":1}`
}

// parseCall reads {"policy":"…","key":{…},"n":1}. Members may come in any order;
// unknown ones, members given twice and text behind the object are errors.
func parseCall(b []byte, takes member) (call, error) {
	r := callReader{Scanner: strictjson.Scanner{Called: "body"}, takes: takes, call: call{n: 1, granted: -1}}
	r.Reset(b)
	if r.AtEnd() {
		return r.call, badInput("the body is empty; send " + takes.example())
	}
	if err := r.object(); err != nil {
		return r.call, badInput("body, " + err.Error())
	}
	return r.call, r.complete()
}

// callReader reads a call. Its errors are those of a scanner, until complete.
type callReader struct {
	strictjson.Scanner
	call        call
	takes, seen member
}

func (r *callReader) object() error {
	more, err := r.Object("the body must be an object, {…}")
	for more && err == nil {
		more, err = r.member()
	}
	if err == nil && !r.AtEnd() {
		err = r.Fault(r.At(), "more text behind the object; send one object")
	}
	return err
}

const wantName = `a member's name must be a string, in "…"`

// member reads a member and reports whether another follows.
func (r *callReader) member() (more bool, err error) {
	name, at, err := r.Name(wantName)
	if err != nil {
		return false, err
	}
	m := memberNamed(name, r.takes)
	if m == 0 {
		return false, r.Fault(at, "unknown member "+answer.Shown(string(name))+"; this call takes "+r.takes.String())
	}
	if r.seen&m != 0 {
		return false, r.Fault(at, strconv.Quote(string(name))+" is given twice; give it once")
	}
	r.seen |= m
	if err := r.value(m); err != nil {
		return false, err
	}
	return r.More("in the body a comma or } must follow here")
}

func (r *callReader) value(m member) (err error) {
	switch m {
	case policyMember:
		var b []byte
		b, err = r.Text(`"policy" must be a string, in "…"`)
		r.call.policy = string(b)
	case keyMember:
		err = r.key()
	case unitsMember:
		r.call.n, err = r.units(`"n"`)
	case grantedMember:
		r.call.granted, err = r.units(`"granted_at_us"`)
	case atMember:
		r.call.granted, err = r.instant()
	case idMember:
		r.call.id, err = r.id()
	case ttlMember:
		r.call.ttl, err = r.milliseconds()
	case reservationMember:
		var b []byte
		b, err = r.Text(`"reservation" must be a string, in "…"`)
		r.call.reservation = string(b)
	case actualMember:
		r.call.actual, err = r.units(`"actual"`)
	}
	return err
}

func (r *callReader) key() error {
	more, err := r.Object(`"key" must be an object, {…}`)
	for more && err == nil {
		more, err = r.dimension()
	}
	return err
}

// dimension reads a dimension of the key and reports whether another follows.
func (r *callReader) dimension() (more bool, err error) {
	name, at, err := r.Name(wantName)
	if err != nil {
		return false, err
	}
	if r.Peek() != '"' {
		return false, r.Unexpected("the value of " + answer.Shown(string(name)) + ` must be a string, in "…"`)
	}
	value, err := r.Text("")
	if err != nil {
		return false, err
	}
	if problem := r.call.key.add(string(name), string(value)); problem != "" {
		return false, r.Fault(at, problem)
	}
	return r.More(`in "key" a comma or } must follow here`)
}

// units reads a whole number of 0 … weir.MaxUnits.
func (r *callReader) units(what string) (int64, error) {
	at := r.At()
	if r.Peek() != '-' {
		if n, err := r.Number(what); err == nil && n <= weir.MaxUnits {
			return n, nil
		}
	}
	return 0, r.Fault(at, what+" must be a whole number, 0 to "+strconv.FormatInt(weir.MaxUnits, 10)+
		", in digits alone: no quotes, sign, fraction or exponent")
}

// milliseconds reads how long a reservation may last.
func (r *callReader) milliseconds() (int64, error) {
	at := r.At()
	n, err := r.units(`"ttl_ms"`)
	if err == nil && n == 0 {
		err = r.Fault(at, `"ttl_ms" must be 1 or more; leave it away for as long as can be`)
	}
	return n, err
}

// id reads the name of an operation.
func (r *callReader) id() (string, error) {
	at := r.At()
	b, err := r.Text(`"id" must be a string, in "…"`)
	if err == nil && (len(b) == 0 || len(b) > weir.MaxIDBytes) {
		err = r.Fault(at, `"id" must hold 1 to `+strconv.Itoa(weir.MaxIDBytes)+" bytes; leave it away for an operation without one")
	}
	return string(b), err
}

// instant reads what the member "at" of an answer held.
func (r *callReader) instant() (int64, error) {
	at := r.At()
	v, err := r.Text(`"at" must be a string, in "…"`)
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, string(v))
	if us := t.UnixMicro(); err == nil && t.Equal(time.UnixMicro(us)) && us >= 0 && us <= weir.MaxUnits {
		return us, nil
	}
	return 0, r.Fault(at, `"at" must be the instant of the grant as its answer told it, such as "2026-11-20T13:07:31.000005Z"`)
}

// complete reports a member that is missing, or one too many.
func (r *callReader) complete() error {
	const instant = grantedMember | atMember
	switch {
	case r.takes&^r.seen&reservationMember != 0:
		return badInput(`"reservation" is missing: the one that the answer to /v1/reserve told`)
	case r.takes&^r.seen&actualMember != 0:
		return badInput(`"actual" is missing: the units that were used; 0, or /v1/release, if none were`)
	case r.takes&^r.seen&policyMember != 0:
		return badInput(`"policy" is missing; GET /v1/policies lists the policies`)
	case r.seen&instant == instant:
		return badInput(`"at" and "granted_at_us" say the same; give one of them`)
	case r.takes&instant != 0 && r.seen&instant == 0:
		return badInput(`"granted_at_us" is missing: the instant of the grant to take back, in microseconds since 1970 (or "at", as its answer told it)`)
	}
	return nil
}

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
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// scratch is the reusable memory of one request: the parsed request, its decision and its answer.
// States of decisions point into it, so they must not be used after release.
type scratch struct {
	call
	to *enforce.Rule // the policy of the call; nil for a settlement and a batch

	batch    []call // the checks of /v1/checks
	together bool   // the whole batch is charged, or nothing

	json     strictjson.Reader
	override override // the members about an override

	into  *call  // the call that is being read: the body or a check of batch
	takes member // the members that the call may have
	seen  member // the members that were read so far

	outcome enforce.Outcome
	states  [engine.MaxLimits]weir.LimitState
	body    []byte // the body of the request
	answer  []byte // the answer, a line of JSON
	denied  bool   // the answer is a denial with the status 429
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// release returns s to the pool. It drops buffers that a long body has enlarged, because the next
// body may be short and arrive slowly.
func (s *scratch) release() {
	if cap(s.body) > 2*shortBody || cap(s.answer) > 4*shortBody {
		s.body = nil
		s.answer = nil
		s.json = strictjson.Reader{}
	}
	clear(s.key)
	s.call = call{key: s.key[:0]}
	s.to = nil
	s.batch = nil
	s.together = false
	s.into = nil
	s.outcome = enforce.Outcome{}
	s.denied = false
	scratches.Put(s)
}

// listPolicies is the next step after an unknown policy.
const listPolicies = "GET /v1/policies lists the policies"

// parse reads a request into s and finds its policy and target. The body may have the members in
// takes. If takes is empty, there is no body, and the URL has the policy and the key.
func (a *API) parse(w http.ResponseWriter, r *http.Request, s *scratch, takes member) error {
	if takes == 0 {
		if r.ContentLength != 0 {
			stopReading(w, r)
			return calls.BadInput("body: this call takes none; "+
				"the key stands in the query: %s %sPOLICY?dimension=value", r.Method, keysPath)
		}
		return a.parseOneKey(r, s)
	}
	s.body = s.body[:0]
	if err := a.readBody(r, s, shortBody); err != nil {
		stopReading(w, r)
		return err
	}
	if takes == batchMembers && r.Header[idempotencyField] != nil {
		return calls.BadInput(`the header field %s cannot name several operations; `+
			`give each check an "id"`, idempotencyField)
	}
	if err := s.read(takes); err != nil {
		return err
	}
	if takes&policyMember == 0 { // a batch finds the policies of its checks later
		return nil
	}
	return a.findTarget(r.Header, s, takes)
}

// findTarget finds the policy and the target of a parsed call. It also checks and sets the members
// that depend on them.
func (a *API) findTarget(h http.Header, s *scratch, takes member) (err error) {
	if s.to, err = a.ruleOf(&s.call, weir.ErrInput); err != nil {
		return err
	}
	if takes&forMember != 0 {
		s.Target, err = s.to.ResetTarget(s.key, s.Limits)
		return err
	}
	if s.Target, err = s.to.Target(s.key); err != nil {
		return err
	}
	if takes&idMember != 0 && h[idempotencyField] != nil {
		if s.ID, err = idempotencyKey(h, s.ID); err != nil {
			return err
		}
	}
	if takes&ttlMember != 0 {
		s.Reserve = true
		if s.TTL, err = reserve.TTL(s.to, &s.Target, s.ttl, `"ttl_ms"`); err != nil {
			return err
		}
	}
	if s.waits {
		s.MaxWait, err = calls.MaxWait(s.to, s.wait, waitName)
	}
	return err
}

// waitName is the member with the longest wait, for messages.
const waitName = `"max_wait_ms"`

// ruleOf returns the policy of a call. A call with limits has an inline policy, any other a policy
// of the file. The error for an unknown name wraps kind.
func (a *API) ruleOf(c *call, kind error) (*enforce.Rule, error) {
	to, err := a.finder().Rule(c.policy, c.lines)
	if errors.Is(err, enforce.ErrNoPolicy) {
		err = calls.NoPolicy(err, kind, listPolicies)
	}
	return to, err
}

const (
	// MaxBody is the largest request body, in bytes. Sixteen key values of 1 KiB fit, with every
	// byte escaped as \u0000.
	MaxBody = 64 << 10

	// shortBody is the number of bytes of a body that is read without a place in API.Bodies.
	// Nearly every body is shorter.
	shortBody = 4 << 10

	// longBodies is the number of longer bodies that are received concurrently. They take 16 MiB.
	longBodies = 256
)

var errLongBody = calls.BadInput("the body is longer than 64 KiB; a call fits in far less, " +
	"and checks can be sent in several batches")

// readBody appends the body of r to s.body. Callers pass shortBody as most. For a longer body,
// readBody takes a place in Bodies and calls itself. The buffer grows with the received bytes, so
// that incomplete bodies take little memory. The read timeout of the server is the deadline.
func (a *API) readBody(r *http.Request, s *scratch, most int) error {
	if r.ContentLength > MaxBody {
		return errLongBody
	}
	for len(s.body) < most {
		if len(s.body) == cap(s.body) {
			s.body = slices.Grow(s.body, 512)
		}
		n, err := r.Body.Read(s.body[len(s.body):min(cap(s.body), most)])
		s.body = s.body[:len(s.body)+n]
		switch {
		case len(s.body) > MaxBody:
			return errLongBody
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return calls.BadInput("the body could not be read to its end; " +
				"send all of Content-Length, and in time")
		}
	}
	return a.Bodies.Do(func() error { return a.readBody(r, s, MaxBody+1) })
}

// stopReading ends the reading of a body that no handler reads. Otherwise net/http waits for the
// rest of it, up to the read timeout, before it sends the answer. After stopReading it closes the
// connection, unless the whole body has arrived.
func stopReading(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		http.NewResponseController(w).SetReadDeadline(time.Now())
	}
}

// call has the members of a body, or of a check in a batch.
type call struct {
	policy  string
	lines   []string // the limits of an inline policy; nil = a policy of the file
	key     enforce.Pairs
	unnamed bool // a check of a batch has no policy

	enforce.Request       // the body holds ID, Limit, and N, 0 … weir.MaxUnits with default 1
	granted         int64 // the instant of a grant to refund, microseconds since 1970; -1 = missing

	waits bool  // max_wait_ms is given, so the answer has start_after_ms
	wait  int64 // the longest wait, in milliseconds, or calls.AnyWait

	ttl         int64  // the time to live of a reservation, in milliseconds; 0 = default
	reservation string // the name of the reservation
	actual      int64  // units that were used, or engine.AllUnits

	last int64 // the span to count, in milliseconds
}

// member is a set of the members of a body. memberNames has their names in this order.
type member uint32

const (
	policyMember member = 1 << iota
	keyMember
	unitsMember
	grantedMember // the instant of a grant in microseconds
	atMember      // the same instant, as the member "at" of an answer
	idMember
	ttlMember
	reservationMember
	actualMember
	checksMember   // the checks of a batch
	togetherMember // the checks are decided as one attempt
	limitMember    // the limit to count
	lastMember     // the span to count
	beforeMember   // the units before an extension
	forMember      // the time of a block
	namesMember    // the limits to block
	linesMember    // the limits of an inline policy
	waitMember
	maxMember // the units of an override
	untilMember
	reasonMember
	authorMember
	forceMember // the units may be fewer than those of the file
)

var memberNames = []string{
	"policy",
	"key",
	"n",
	"granted_at_us",
	"at",
	"id",
	"ttl_ms",
	"reservation",
	"actual",
	"checks",
	"together",
	"limit",
	"last_ms",
	"reserved",
	"for_ms",
	"limit_names",
	"limits",
	"max_wait_ms",
	"max",
	"until",
	"reason",
	"author",
	"force",
}

// These are the members that each call may have.
const (
	peekMembers    = policyMember | linesMember | keyMember | unitsMember
	recordMembers  = peekMembers | idMember
	checkMembers   = recordMembers | waitMember
	countMembers   = policyMember | linesMember | keyMember | limitMember | lastMember
	refundMembers  = recordMembers | grantedMember | atMember
	reserveMembers = checkMembers | ttlMember
	settleMembers  = reservationMember | actualMember
	releaseMembers = reservationMember
	extendMembers  = reservationMember | unitsMember | beforeMember
	blockMembers   = policyMember | linesMember | keyMember | forMember | namesMember
	batchMembers   = checksMember | togetherMember

	deleteOverrideMembers = keyMember | limitMember | reasonMember | authorMember
	putOverrideMembers    = deleteOverrideMembers | maxMember | untilMember | forceMember
)

// bodies describes the members of each call, with an example.
var bodies = map[member]struct{ members, example string }{
	peekMembers: {
		"policy, key, n, limits",
		`{"policy":"…","key":{…},"n":1}`,
	},
	recordMembers: {
		"policy, key, n, id, limits",
		`{"policy":"…","key":{…},"n":1}`,
	},
	checkMembers: {
		"policy, key, n, id, max_wait_ms, limits",
		`{"policy":"…","key":{…},"n":1}`,
	},
	reserveMembers: {
		"policy, key, n, id, ttl_ms, max_wait_ms, limits",
		`{"policy":"…","key":{…},"n":1}`,
	},
	refundMembers: {
		"policy, key, n, id, limits, and granted_at_us or at",
		`{"policy":"…","key":{…},"n":1}`,
	},
	countMembers: {
		"policy, key, limit, last_ms, limits",
		`{"policy":"…","key":{…},"last_ms":20000}`,
	},
	settleMembers: {
		"reservation and actual",
		`{"reservation":"…","actual":1}`,
	},
	releaseMembers: {
		"reservation",
		`{"reservation":"…"}`,
	},
	extendMembers: {
		"reservation, n and reserved",
		`{"reservation":"…"}`,
	},
	blockMembers: {
		"policy, key, for_ms, limit_names and limits",
		`{"policy":"…","key":{…},"for_ms":600000}`,
	},
	putOverrideMembers: {
		"key, limit, max, until, reason, author and force",
		`{"key":{…},"max":100,"reason":"…","author":"…"}`,
	},
	deleteOverrideMembers: {
		"key, limit, reason and author",
		`{"key":{…},"reason":"…","author":"…"}`,
	},
	batchMembers: {
		"checks and together",
		`{"checks":[{"policy":"…","key":{…},"n":1}]}`,
	},
}

// read reads the body {"policy":"…","key":{…},"n":1} into s.call, or a batch into s.batch. Both
// must be as after release. Members may have any order. Unknown members, repeated members and text after
// the object are errors. The memory of the key is reused.
func (s *scratch) read(takes member) error {
	s.N = 1
	s.granted = -1
	switch takes {
	case settleMembers:
		s.actual = engine.AllUnits
	case extendMembers:
		s.N = 0
		s.Before = engine.Unknown
	}
	s.expect(&s.call, takes)
	text := bytes.TrimLeft(s.body, " \t\r\n")
	if len(text) == 0 {
		return calls.BadInput("the body is empty; send %s", bodies[takes].example)
	}
	err := s.json.Read(s.body, "the body must be an object, {…}",
		"more text behind the object; send one object", s.readMember)
	switch {
	case err == nil:
		return s.checkMembers()
	case text[0] != '{':
		return calls.BadInput("body, %v; send %s", err, bodies[takes].example)
	}
	return calls.BadInput("body, %v", err)
}

// expect sets the call into which the next members are read. It may have the members in takes.
func (s *scratch) expect(into *call, takes member) {
	s.into = into
	s.takes = takes
	s.seen = 0
}

// checkMembers rejects a body in which a member is missing or two members do not fit together.
func (s *scratch) checkMembers() error {
	missing := s.takes &^ s.seen
	const instant = grantedMember | atMember
	switch {
	case s.takes&checksMember != 0 && len(s.batch) == 0:
		return calls.BadInput(`"checks" is missing or empty; send %s`, bodies[batchMembers].example)
	case missing&reservationMember != 0:
		return calls.BadInput(`"reservation" is missing: the text in the answer to /v1/reserve`)
	case s.seen&beforeMember != 0 && s.N == 0:
		return calls.BadInput(`"reserved" is for an extension by units; ` +
			`give their number as "n", or leave "reserved" away`)
	case missing&policyMember != 0 && missing&linesMember != 0:
		return errNoPolicy
	case missing&forMember != 0:
		return calls.BadInput(`"for_ms" is missing: ` +
			`the time of the block in milliseconds; 0 ends blocks`)
	case missing&lastMember != 0:
		return calls.BadInput(`"last_ms" is missing: ` +
			`the span to count, 1 to the window of the limit in milliseconds`)
	case s.seen&instant == instant:
		return calls.BadInput(`"at" and "granted_at_us" are the same instant; give one of them`)
	case missing&instant == instant:
		return calls.BadInput(`"granted_at_us" is missing: ` +
			`the instant of the grant to take back, in microseconds since 1970 (or "at" of ` +
			`its answer)`)
	}
	return nil
}

// readMember reads the value of a member.
func (s *scratch) readMember(name []byte) (err error) {
	m := s.takes & memberOf(name)
	if m == 0 {
		return s.json.Fault("unknown member " + answer.Shown(string(name)) +
			"; this call takes " + bodies[s.takes].members + ", as in " + bodies[s.takes].example)
	}
	s.seen |= m
	c := s.into
	switch m {
	case policyMember:
		c.policy, err = s.readText(`"policy" must be a string, in "…"`)
	case keyMember:
		err = s.json.Object(`"key" must be an object, {"DIMENSION":"VALUE"}`, s.readDimension)
	case unitsMember:
		c.N, err = s.readWhole(`"n"`, "", weir.MaxUnits)
	case grantedMember:
		c.granted, err = s.readWhole(`"granted_at_us"`, "", weir.MaxInstant)
	case atMember:
		c.granted, err = s.readInstant()
	case idMember:
		c.ID, err = s.readID()
	case ttlMember:
		c.ttl, err = s.readTTL()
	case waitMember:
		c.waits = true
		c.wait, err = s.readWait()
	case reservationMember:
		c.reservation, err = s.readText(`"reservation" must be a string, in "…"`)
	case actualMember:
		c.actual, err = s.readWhole(`"actual"`, "", weir.MaxUnits)
	case checksMember:
		err = s.json.Array(`"checks" must be an array, […]`, s.readCheck)
	case limitMember:
		c.Limit, err = s.readLimit()
	case lastMember:
		const bounds = "1 to the window of the limit in milliseconds"
		c.last, err = s.readWhole(`"last_ms"`, bounds, math.MaxInt64)
	case beforeMember:
		c.Before, err = s.readWhole(`"reserved"`, "", weir.MaxUnits)
	case forMember:
		c.For, err = s.readFor()
	case namesMember:
		err = s.json.Array(`"limit_names" must be an array of names, […]`, s.readLimitName)
	case linesMember:
		c.lines = []string{}
		err = s.json.Array(`"limits" must be an array of limits, ["10 per minute per user"]`,
			s.readLine)
	case togetherMember:
		s.together, err = s.json.Bool(`"together" must be true or false`)
	default:
		err = s.readOverrideMember(m)
	}
	return err
}

// memberOf returns the member with a name, or 0.
func memberOf(name []byte) member {
	for i, known := range memberNames {
		if string(name) == known {
			return 1 << i
		}
	}
	return 0
}

// readID reads an idempotency key.
func (s *scratch) readID() (string, error) {
	id, err := s.readText(`"id" must be a string, in "…"`)
	if err == nil && (id == "" || len(id) > weir.MaxIDBytes) {
		err = s.json.Fault(`"id" must hold 1 to ` + strconv.Itoa(weir.MaxIDBytes) +
			" bytes; leave it away for an operation without one")
	}
	return id, err
}

// readTTL reads the time to live of a reservation, in milliseconds.
func (s *scratch) readTTL() (int64, error) {
	ms, err := s.readWhole(`"ttl_ms"`, "", weir.MaxUnits)
	if err == nil && ms == 0 {
		err = s.json.Fault(`"ttl_ms" must be 1 or more; leave it away for as long as can be`)
	}
	return ms, err
}

// readLimit reads the name of the limit to count.
func (s *scratch) readLimit() (string, error) {
	name, err := s.readText(`"limit" must be a string, in "…"`)
	if err == nil && name == "" {
		err = s.json.Fault(`"limit" must be the name of a limit; ` +
			`leave it away for the only limit of a policy`)
	}
	return name, err
}

// readFor reads the time of a block.
func (s *scratch) readFor() (time.Duration, error) {
	ms, err := s.readWhole(`"for_ms"`, "", weir.MaxWindow.Milliseconds())
	return time.Duration(ms) * time.Millisecond, err
}

// readLimitName reads the name of a limit to block.
func (s *scratch) readLimitName() error {
	name, err := s.readText(`"limit_names" must hold names, each in "…"`)
	if err == nil && len(s.into.Limits) == engine.MaxLimits {
		err = s.json.Fault("more than " + strconv.Itoa(engine.MaxLimits) +
			" limits; no policy has so many")
	}
	s.into.Limits = append(s.into.Limits, name)
	return err
}

// readLine reads a limit of an inline policy.
func (s *scratch) readLine() error {
	line, err := s.readText(`"limits" must hold limits such as "10 per minute per user", each in "…"`)
	s.into.lines = append(s.into.lines, line)
	return err
}

// readText reads a string.
func (s *scratch) readText(want ...string) (string, error) {
	b, err := s.json.Text(want...)
	return string(b), err
}

// readDimension reads a dimension of the key.
func (s *scratch) readDimension(name []byte) error {
	dimension := string(name)
	value, err := s.readText("the value of ", answer.Shown(dimension), ` must be a string, in "…"`)
	if err != nil {
		return err
	}
	var problem string
	if s.into.key, problem = s.into.key.Add(dimension, value); problem != "" {
		return s.json.Fault(problem)
	}
	return nil
}

// readWhole reads a whole number of 0 … most. bounds is the range in the error; "" = 0 to most.
func (s *scratch) readWhole(name, bounds string, most int64) (int64, error) {
	n, err := s.json.Number("")
	if err != nil || n < 0 || n > most {
		bounds = cmp.Or(bounds, "0 to "+strconv.FormatInt(most, 10))
		return 0, s.json.Fault(name + " must be a whole number, " + bounds +
			", in digits alone: no quotes, sign, fraction or exponent")
	}
	return n, nil
}

// readWait reads a longest wait in milliseconds, or calls.AnyWait.
func (s *scratch) readWait() (int64, error) {
	ms, err := s.json.Number("")
	if err != nil || ms < calls.AnyWait || ms > weir.MaxWindow.Milliseconds() {
		return 0, s.json.Fault(waitName + " must be a whole number, " + calls.WaitBounds +
			", in digits alone: no quotes, fraction or exponent")
	}
	return ms, nil
}

// readInstant reads an instant as the member "at" of an answer holds it.
func (s *scratch) readInstant() (int64, error) {
	v, err := s.readText(`"at" must be a string, in "…"`)
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	us := t.UnixMicro()
	if err != nil || !t.Equal(time.UnixMicro(us)) {
		return 0, s.json.Fault(`"at" must be the instant of the grant, as in its answer, ` +
			`such as "2026-11-20T13:07:31.000005Z"`)
	}
	if us < 0 || us > weir.MaxInstant {
		return 0, s.json.Fault(`"at" must be 1970-01-01T00:00:00Z to ` +
			`2255-06-05T23:47:34.740991Z, as in the answer of the grant`)
	}
	return us, nil
}

var errNoPolicy = calls.BadInput(`"policy" is missing; GET /v1/policies lists the policies`)

// maxChecks is the largest number of checks in a batch. One round trip to Redis decides as many.
const maxChecks = 128

// readCheck reads a check of a batch. An error of one check, such as an unknown policy, belongs to
// the answer of that check. Text that is not a check is an error of the whole body.
func (s *scratch) readCheck() error {
	index := len(s.batch)
	if index == maxChecks {
		return s.json.Fault("more than " + strconv.Itoa(maxChecks) +
			" checks; send them in several batches")
	}
	s.batch = append(s.batch, call{Request: enforce.Request{N: 1}, granted: -1})
	s.expect(&s.batch[index], checkMembers)
	err := s.json.Object("a check must be an object, {…}", s.readMember)
	s.into.unnamed = s.seen&(policyMember|linesMember) == 0
	s.takes = batchMembers
	if err != nil {
		return fmt.Errorf("checks[%d]: %w", index, err)
	}
	return nil
}

// idempotencyField is the header field that names an operation, as the member "id" does
// (draft-ietf-httpapi-idempotency-key-header).
const idempotencyField = "Idempotency-Key"

// idempotencyKey returns the idempotency key of the header or of the body, or "". Two different
// keys are an error.
func idempotencyKey(h http.Header, body string) (string, error) {
	id, given, err := readIDField(h, idempotencyField)
	switch {
	case err != nil:
		return "", err
	case !given:
		return body, nil
	case body != "" && body != id:
		return "", calls.BadInput(`%s and "id" name two operations; give one of them`,
			idempotencyField)
	}
	return id, nil
}

// readIDField reads an idempotency key from a header field: a string in quotes, as the draft
// requires, or the bare text that most clients send.
func readIDField(h http.Header, field string) (id string, given bool, err error) {
	lines := h.Values(field)
	if len(lines) == 0 {
		return "", false, nil
	}
	if len(lines) > 1 {
		return "", true, calls.BadInput("the header field %s is there more than once; "+
			"an operation has one id", field)
	}
	id, ok := lines[0], true
	if strings.HasPrefix(id, `"`) {
		id, ok = unquoted(id)
	}
	if !ok || id == "" || len(id) > weir.MaxIDBytes || !isPrintable(id) {
		return "", true, calls.BadInput(`the header field %s must hold `+
			`1 to %d characters of ASCII, bare or in "…"; `+
			`leave it away for an operation without an id`, field, weir.MaxIDBytes)
	}
	return id, true, nil
}

// isPrintable reports whether a text has only printable ASCII characters.
func isPrintable(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
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

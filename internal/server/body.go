package server

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/answer"
)

// maxBody is the largest request body, in bytes: sixteen key values of 1 KiB,
// every byte of them escaped as \u0000, still fit.
const maxBody = 64 << 10

// call is what a request asks for.
type call struct {
	policy  string
	key     pairs
	n       int64 // units, 0 … weir.MaxUnits; 1 unless said otherwise
	granted int64 // the instant a refund is for, microseconds since 1970; -1 = not said
}

// readBody reads the body of r into buf, at most maxBody bytes.
func readBody(r *http.Request, buf []byte) ([]byte, error) {
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, 512)
		}
		n, err := r.Body.Read(buf[len(buf):min(cap(buf), maxBody+1)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > maxBody:
			return buf, badInput("the body is longer than 64 KiB; a call fits in far less")
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, badInput("the body could not be read to its end; send all of Content-Length, and in time")
		}
	}
}

// member is a set of the members of a body.
type member uint8

const (
	policyMember member = 1 << iota
	keyMember
	unitsMember
	grantedMember // granted_at_us
	atMember      // the same as the answer to the grant told it
)

// What calls take.
const (
	decisionMembers = policyMember | keyMember | unitsMember
	refundMembers   = decisionMembers | grantedMember | atMember
)

var memberNames = []string{"policy", "key", "n", "granted_at_us", "at"}

// memberNamed returns the member of that name among those the call takes, or 0.
func memberNamed(name string, takes member) member {
	for i, known := range memberNames {
		if name == known {
			return takes & (1 << i)
		}
	}
	return 0
}

// parseCall reads {"policy":"…","key":{…},"n":1}. Members may come in any order;
// unknown ones, members given twice and text behind the object are errors.
func parseCall(b []byte, takes member) (call, error) {
	c := call{n: 1, granted: -1}
	s := scanner{b: b}
	if s.next(); s.i == len(b) {
		return c, badInput(`the body is empty; send {"policy":"…","key":{…},"n":1}`)
	}
	var seen member
	err := s.object("the body", func(name string, at int) error {
		m := memberNamed(name, takes)
		if m == 0 {
			return s.fault(at, "unknown member "+answer.Shown(name)+"; this call takes "+takes.String())
		}
		if seen&m != 0 {
			return s.fault(at, strconv.Quote(name)+" is given twice; give it once")
		}
		seen |= m
		return c.read(&s, m)
	})
	if err == nil {
		err = s.end()
	}
	if err == nil {
		err = complete(seen, takes)
	}
	return c, err
}

func (m member) String() string {
	if m == refundMembers {
		return "policy, key, n, and granted_at_us or at"
	}
	return "policy, key, n"
}

// read reads the value of a member.
func (c *call) read(s *scanner, m member) (err error) {
	switch m {
	case policyMember:
		c.policy, err = s.text(`"policy"`)
	case keyMember:
		err = c.readKey(s)
	case unitsMember:
		c.n, err = s.units(`"n"`)
	case grantedMember:
		c.granted, err = s.units(`"granted_at_us"`)
	case atMember:
		c.granted, err = s.instant()
	}
	return err
}

func (c *call) readKey(s *scanner) error {
	return s.object(`"key"`, func(name string, at int) error {
		s.next()
		if s.i < len(s.b) && s.b[s.i] != '"' {
			return s.fault(s.i, "the value of "+answer.Shown(name)+` must be a string, in "…"`)
		}
		value, err := s.text("the value")
		if err != nil {
			return err
		}
		if problem := c.key.add(name, value); problem != "" {
			return s.fault(at, problem)
		}
		return nil
	})
}

// instant reads what the member "at" of an answer held.
func (s *scanner) instant() (int64, error) {
	s.next()
	at := s.i
	v, err := s.text(`"at"`)
	if err != nil {
		return 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if us := t.UnixMicro(); err == nil && t.Equal(time.UnixMicro(us)) && us >= 0 && us <= weir.MaxUnits {
		return us, nil
	}
	return 0, s.fault(at, `"at" must be the instant of the grant as its answer told it, such as "2026-11-20T13:07:31.000005Z"`)
}

// complete reports a member that is missing.
func complete(seen, takes member) error {
	const instant = grantedMember | atMember
	switch {
	case seen&policyMember == 0:
		return badInput(`"policy" is missing; GET /v1/policies lists the policies`)
	case seen&instant == instant:
		return badInput(`"at" and "granted_at_us" say the same; give one of them`)
	case takes&instant != 0 && seen&instant == 0:
		return badInput(`"granted_at_us" is missing: the instant of the grant to take back, in microseconds since 1970 (or "at", as its answer told it)`)
	}
	return nil
}

package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/cmd/weir/internal/observe"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
)

// maxChecks is the largest number of checks in a batch: as many as one round trip to Redis
// takes.
const maxChecks = 128

// parseBatch reads the body of a batch. An error of one check, such as an unknown policy,
// is left to its answer; text that is no batch is an error of the whole body.
func (s *scratch) parseBatch(r *http.Request) error {
	if r.Header[idempotencyField] != nil {
		return calls.BadInput("the header field " + idempotencyField + ` cannot name several operations; give each check an "id"`)
	}
	reader := &s.reader
	reader.takes, reader.seen, reader.batch, reader.together = batchMembers, 0, nil, false
	if err := reader.body(s.body); err != nil {
		return err
	}
	if s.batch, s.together = reader.batch, reader.together; len(s.batch) == 0 {
		return calls.BadInput(`"checks" is missing or empty; send ` + bodies[batchMembers].example)
	}
	return nil
}

// checks reads the array of checks.
func (r *callReader) checks() error {
	defer func(takes member) { r.takes = takes }(r.takes)
	return r.Array(`"checks" must be an array, […]`, func() error {
		index := len(r.batch)
		if index == maxChecks {
			return r.Fault("more than " + strconv.Itoa(maxChecks) + " checks; send them in several batches")
		}
		r.batch = append(r.batch, call{n: 1, granted: -1})
		r.into, r.takes, r.seen = &r.batch[index], decisionMembers, 0
		err := r.Object("a check must be an object, {…}", r.member)
		if r.into.unnamed = r.seen&policyMember == 0; err != nil {
			return fmt.Errorf("checks[%d]: %w", index, err)
		}
		return nil
	})
}

// checks decides a batch and writes the answers, in the order of the checks, to s.answer.
func (a *API) checks(r *http.Request, s *scratch) error {
	set := a.Policies()
	items, via := make([]enforce.Item, len(s.batch)), a.via(r, observe.HTTP)
	for i := range s.batch {
		items[i] = itemOf(set, &s.batch[i])
		items[i].Via = via
	}
	if s.together {
		if err := enforce.DecideTogether(background, items); err != nil {
			return checkError(err)
		}
	} else {
		enforce.DecideAll(background, items)
	}
	out := append(s.answer[:0], `{"checks":[`...)
	for i := range items {
		if i > 0 {
			out = append(out, ',')
		}
		it := &items[i]
		if it.Err != nil {
			out = a.appendProblem(out, i, it.Err)
			continue
		}
		if it.Outcome.Err != nil { // a shadow that could not decide
			a.Errors.NoDecision(it.Outcome.Err)
		}
		made := answerOf(&it.Request, &it.Outcome)
		out = made.AppendJSON(out, &it.Outcome.Applied)
	}
	s.answer = append(out, "]}\n"...)
	return nil
}

// checkError returns the error of a batch that is decided together, with the index of the
// check that is wrong.
func checkError(err error) error {
	of := new(weir.CallError)
	if !errors.As(err, &of) {
		return err
	}
	p := &calls.Problem{Err: weir.ErrInput, Detail: of.Err.Error()}
	if known := new(calls.Problem); errors.As(of.Err, &known) {
		*p = *known
	}
	p.Detail = "checks[" + strconv.Itoa(of.Call) + "]: " + p.Detail
	return p
}

// itemOf returns the item of a check, or one with the error of its input.
func itemOf(set *enforce.Version, c *call) enforce.Item {
	if c.unnamed {
		return enforce.Item{Err: errNoPolicy}
	}
	to, err := find(set, c.policy, weir.ErrInput)
	if err != nil {
		return enforce.Item{Err: err}
	}
	target, err := to.Target(c.key)
	if err != nil {
		return enforce.Item{Err: err}
	}
	return enforce.Item{Rule: to, Request: enforce.Request{Target: target, Op: weir.OpAttempt, N: c.n,
		States: make([]weir.LimitState, len(to.Compiled.Limits)), ID: c.id}}
}

// appendProblem appends the answer of a check that got no decision: its index, and the
// members of a problem document.
func (a *API) appendProblem(out []byte, index int, err error) []byte {
	status, detail := a.problemOf(err)
	out = strconv.AppendInt(append(out, `{"index":`...), int64(index), 10)
	out = answer.AppendString(append(out, `,"type":"about:blank","title":`...), http.StatusText(status))
	out = strconv.AppendInt(append(out, `,"status":`...), int64(status), 10)
	return append(answer.AppendString(append(out, `,"detail":`...), detail), '}')
}

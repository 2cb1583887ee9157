package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/cmd/weir/internal/strictjson"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/policy"
)

// Runner replays one trace against policies on an engine.
type Runner struct {
	policies map[string]*tracePolicy
	order    []*tracePolicy
	recent   *tracePolicy // the policy of the line before; nil = none
	parser   parser
	line     Line
	lines    int64 // lines read, blank ones included
	summary  Summary
	recorded bool // a header was read: values may be hashes
}

// New returns a Runner of the policies of a file, with their plans, overrides (at the
// instant of each line), counts of reports, and shadows, which allow all attempts. The error
// is the *weir.PolicyError of the first invalid policy.
func New(f *policy.File, e engine.Engine) (*Runner, error) {
	r := &Runner{policies: make(map[string]*tracePolicy, len(f.Policies))}
	for _, p := range f.Policies {
		rule, err := enforce.NewRule(p, e)
		if err != nil {
			return nil, err
		}
		t := &tracePolicy{rule, PolicySummary{
			Policy: p.Name,
			Shadow: p.Shadow,
			Limits: make([]LimitSummary, len(p.Limits)),
		}}
		for i, l := range p.Limits {
			t.summary.Limits[i].Limit = l.Name
		}
		r.policies[p.Name] = t
		r.order = append(r.order, t)
	}
	return r, nil
}

// Run writes the answer of each line of in to out, in order, and returns a summary. It
// flushes the answers before each read of in. The error is one of in, out or the
// engine; out then has the answers before it.
func (r *Runner) Run(in io.Reader, out io.Writer) (Summary, error) {
	w := bufio.NewWriterSize(out, writeBytes)
	err := r.run(bufio.NewReaderSize(&flushingReader{in, w}, readBytes), w)
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	return r.finish(), err
}

func (r *Runner) run(lines *bufio.Reader, w *bufio.Writer) error {
	for {
		b, err := nextLine(lines)
		if err == io.EOF {
			return nil
		}
		r.lines++
		switch {
		case err != nil && err != errTooLong:
			return err
		case err == nil && isBlank(b):
			continue
		case err == nil && accesslog.IsTraceHeader(b):
			if err = r.readHeader(b); err == nil {
				continue
			}
		}
		line, err := r.answer(b, err, w.AvailableBuffer())
		if err != nil {
			return fmt.Errorf("line %d: %w", r.lines, err)
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
}

// answer appends the answer of one line. err is the reason why it is none. The error is the
// engine's; then nothing is appended.
func (r *Runner) answer(b []byte, err error, out []byte) ([]byte, error) {
	var res result
	if err == nil {
		err = r.decide(b, &res)
	}
	if err != nil {
		if !isLineError(err) {
			return out, err
		}
		res.problem = fmt.Sprintf("line %d: %v", r.lines, err)
	}
	r.count(&res)
	return res.appendTo(out), nil
}

// readHeader reads the header of a recorded trace into the summary.
func (r *Runner) readHeader(b []byte) error {
	h, err := accesslog.ParseTraceHeader(b)
	if err != nil {
		return lineError(err.Error())
	}
	r.recorded = true
	r.summary.Sample = max(r.summary.Sample, h.Sample)
	r.summary.Dropped += h.Dropped
	return nil
}

// decide reads and decides a line, and stores the result in res. If a shadow cannot decide, the
// replay ends, because its purpose is the decisions.
func (r *Runner) decide(b []byte, res *result) error {
	line := &r.line
	err := r.parser.parse(b, line)
	res.op = line.Op
	res.at = line.At
	res.hasAt = line.has(atField)
	if err != nil {
		if !res.hasAt {
			res.at, res.hasAt = parseAt(b)
		}
		return err
	}
	if res.policy = r.policyNamed(line.Policy); res.policy == nil {
		return r.unknownPolicy(line.Policy)
	}
	rule := res.policy.rule
	if line.Op == engine.Reset || line.Op == engine.Block {
		return r.changeKey(rule, res)
	}
	item := &res.item
	item.Rule = rule
	// the values of a recorded trace are in their counted form already, or hashes of it
	if err = item.SetTarget(line.Key, r.recorded); err != nil {
		return err
	}
	item.Op = line.Op
	item.N = line.N
	item.At = time.UnixMicro(line.At)
	item.ID = line.ID
	item.From = time.UnixMicro(line.GrantedAt)
	item.Limit = line.Limit
	item.Last = time.Duration(line.Last) * time.Microsecond
	item.TTL = time.Duration(line.TTL) * time.Microsecond
	item.Before = engine.Unknown
	if !rule.Reported { // where reports are charged, an attempt reserves and waits for nothing
		item.Reserve = line.TTL > 0
		item.MaxWait = time.Duration(line.MaxWait) * time.Microsecond
	}
	res.waits = line.has(waitField) && line.Op == engine.Attempt
	item.Decide(context.Background())
	if errors.Is(item.Err, weir.ErrExpired) || errors.Is(item.Err, weir.ErrSettled) {
		res.lost = true // under these policies its attempt was denied, or it was another one
		item.Err = nil
	}
	if item.Err == nil && line.Op > engine.Record { // the answer is that of a peek
		res.units = item.Outcome.Granted
		item.Op = engine.Peek
		item.N = 0
		item.ID = ""
		item.Decide(context.Background())
	}
	if item.Err != nil {
		return item.Err
	}
	return item.Outcome.Err
}

// changeKey makes the reset or the block of a line. The answer is that of a peek, if the key has
// all dimensions.
func (r *Runner) changeKey(rule *enforce.Rule, res *result) error {
	line := &r.line
	var limits []string
	if line.has(limitField) {
		limits = []string{line.Limit}
	}
	targetOf := rule.ResetTarget
	if r.recorded {
		targetOf = rule.ResetTargetAsWritten
	}
	target, err := targetOf(line.Key, limits)
	if err != nil {
		return err
	}
	at := time.UnixMicro(line.At)
	change := enforce.Request{
		Target: target,
		Op:     line.Op,
		Limits: limits,
		At:     at,
		For:    time.Duration(line.For) * time.Microsecond,
	}
	if _, err = rule.Decide(context.Background(), &change); err != nil {
		return err
	}
	item := &res.item
	item.Rule = rule
	if item.SetTarget(line.Key, r.recorded) != nil {
		item.Outcome.Decision = weir.Decision{Allowed: true, At: at}
		return nil
	}
	item.Op = engine.Peek
	item.At = at
	item.Decide(context.Background())
	return cmp.Or(item.Err, item.Outcome.Err)
}

// isLineError reports whether err concerns one line only (R14), so that the replay goes
// on. After other errors the engine cannot decide.
func isLineError(err error) bool {
	isMalformed := errors.As(err, new(*strictjson.Error)) || errors.As(err, new(lineError))
	return isMalformed || answer.IsBadInput(err) || errors.Is(err, weir.ErrFull)
}

// policyNamed returns the policy with a name, or nil. It is probably that of the line before.
func (r *Runner) policyNamed(name string) *tracePolicy {
	if r.recent == nil || r.recent.rule.Name != name {
		r.recent = r.policies[name]
	}
	return r.recent
}

func (r *Runner) unknownPolicy(name string) error {
	var known []string
	for _, t := range r.order {
		known = append(known, t.summary.Policy)
	}
	return lineError(fmt.Sprintf("unknown policy %q; the policies are %s", shorten.Text(name),
		shorten.List(known)))
}

// tracePolicy is a policy with its summary.
type tracePolicy struct {
	rule    *enforce.Rule
	summary PolicySummary
}

const (
	readBytes  = 256 << 10 // more than a line of MaxLineBytes and its ending
	writeBytes = 64 << 10
)

// nextLine returns the next line without its ending, valid until the next call. It skips a
// line of more than MaxLineBytes and returns errTooLong. After the last line it returns
// io.EOF.
func nextLine(lines *bufio.Reader) ([]byte, error) {
	b, err := accesslog.NextLine(lines)
	b = bytes.TrimSuffix(bytes.TrimSuffix(b, []byte("\n")), []byte("\r"))
	if err == accesslog.ErrLong || err == nil && len(b) > MaxLineBytes {
		return nil, errTooLong
	}
	return b, err
}

// isBlank reports whether a line has only white space.
func isBlank(b []byte) bool {
	for _, c := range b {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}

// flushingReader flushes out before each read of in, which may block: a program
// that writes a pipe line by line gets each answer before its next line.
type flushingReader struct {
	in  io.Reader
	out *bufio.Writer
}

func (p *flushingReader) Read(b []byte) (int, error) {
	if err := p.out.Flush(); err != nil {
		return 0, err
	}
	return p.in.Read(b)
}

// result is the result of one line.
type result struct {
	policy  *tracePolicy // nil = unknown
	op      engine.Op
	at      int64 // the instant of the line, if hasAt
	hasAt   bool
	item    enforce.Item // the decision; a zero one if the line has none
	units   int64        // counted by Count, refunded by Refund and Settle, added by Extend
	waits   bool         // the line has a max_wait_us
	lost    bool         // a Settle or an Extend found no open reservation
	problem string       // not "": the line is bad and changed nothing
}

// appendTo appends the answer, a line of JSON. The order of fields is fixed and there
// is no white space, so equal decisions are equal bytes.
func (r *result) appendTo(out []byte) []byte {
	j := answer.JSON{Text: out}
	j.Object("")
	if r.problem != "" {
		r.writeProblem(&j)
	} else {
		r.writeDecision(&j)
	}
	j.EndObject()
	return append(j.Text, '\n')
}

func (r *result) writeDecision(j *answer.JSON) {
	d := &r.item.Outcome.Decision
	j.Int("at_us", d.At.UnixMicro())
	j.Bool("allowed", d.Allowed)
	j.Int("granted", d.Granted)
	j.Int("remaining", d.Remaining)
	j.Int("retry_after_us", answer.Micros(d.RetryAfter))
	j.Int("reset_after_us", answer.Micros(d.ResetAfter))
	if r.waits {
		j.Int("start_after_us", answer.Micros(d.StartAfter))
	}
	j.String("limit", d.Limit)
	switch r.op {
	case engine.Count:
		j.Int("count", r.units)
	case engine.Refund, engine.Settle:
		j.Int("refunded", r.units)
	case engine.Extend:
		j.Int("added", r.units)
	}
	if r.lost {
		j.Bool("no_reservation", true)
	}
	r.item.Outcome.Applied.WriteMembers(j)
	if d.Replayed {
		j.Bool("replayed", true)
	}
}

func (r *result) writeProblem(j *answer.JSON) {
	if r.hasAt {
		j.Int("at_us", r.at)
	}
	j.String("error", r.problem)
}

// decided returns the decision before shadow mode.
func (r *result) decided() *weir.Decision {
	if r.item.Outcome.Applied.Shadow {
		return &r.item.Outcome.Applied.Would
	}
	return &r.item.Outcome.Decision
}

// Summary counts the lines of a replay: Lines = Allowed + Denied + Other + Errors.
type Summary struct {
	Lines int64 `json:"lines"` // lines that are not blank
	Counts

	// The least and the greatest instant of a decision; 0 without decisions.
	FirstAt int64 `json:"first_at_us"`
	LastAt  int64 `json:"last_at_us"`

	// A recorded trace holds one of Sample keys, 0 or 1 = all. Dropped calls are missing in it.
	Sample  int64 `json:"sample,omitempty"`
	Dropped int64 `json:"dropped,omitempty"`

	// Policies with lines, in the order of the file.
	Policies []PolicySummary `json:"policies"`
}

// Counts counts lines by their outcome.
type Counts struct {
	Allowed int64 `json:"allowed"` // checks allowed, also in part
	Denied  int64 `json:"denied"`  // checks denied
	Other   int64 `json:"other"`   // good lines with another op
	Errors  int64 `json:"errors"`  // bad lines, which changed nothing
}

// count adds one line.
func (c *Counts) count(res *result) {
	switch {
	case res.problem != "":
		c.Errors++
	case res.op != engine.Attempt:
		c.Other++
	case res.decided().Allowed:
		c.Allowed++
	default:
		c.Denied++
	}
}

// PolicySummary counts the lines with one policy.
type PolicySummary struct {
	Policy string `json:"policy"`
	Counts

	// Shadow is set for a policy that is not enforced: Denied counts attempts that would be
	// denied.
	Shadow bool           `json:"shadow,omitempty"`
	Limits []LimitSummary `json:"limits"` // in the order of the policy
}

// LimitSummary counts the checks that one limit denied or cut: of several such limits
// the one with the longest wait.
type LimitSummary struct {
	Limit  string `json:"limit"`
	Denied int64  `json:"denied"` // checks denied
	Cut    int64  `json:"cut"`    // checks allowed in part, with batch: partial
}

// finish returns the counters of a Run.
func (r *Runner) finish() Summary {
	s := r.summary
	s.Policies = []PolicySummary{}
	for _, t := range r.order {
		if p := &t.summary; p.Counts != (Counts{}) {
			s.Policies = append(s.Policies, *p)
		}
	}
	return s
}

// count adds one line.
func (r *Runner) count(res *result) {
	s := &r.summary
	s.Lines++
	s.Counts.count(res)
	if res.policy != nil {
		res.policy.summary.count(res)
	}
	if res.problem != "" {
		return
	}
	at := res.item.Outcome.At.UnixMicro()
	if s.Lines-s.Errors == 1 {
		s.FirstAt = at
		s.LastAt = at
	}
	s.FirstAt = min(s.FirstAt, at)
	s.LastAt = max(s.LastAt, at)
}

// count adds one line.
func (s *PolicySummary) count(res *result) {
	s.Counts.count(res)
	d := res.decided()
	if res.problem != "" || res.op != engine.Attempt || d.Limit == "" {
		return
	}
	for i := range s.Limits {
		l := &s.Limits[i]
		switch {
		case l.Limit != d.Limit:
		case d.Allowed:
			l.Cut++
		default:
			l.Denied++
		}
	}
}

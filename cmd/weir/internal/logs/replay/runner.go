package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/shorten"
	"github.com/weirlimit/weir/policy"
)

// Runner replays traces against policies on one engine. Histories stay in the
// engine from one Run to the next. A Runner is used by one goroutine at a time.
type Runner struct {
	policies map[string]*tracePolicy
	order    []*tracePolicy
	parser   parser
	line     Line
	lines    int64 // lines read, blank ones included
	summary  Summary
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
		t := &tracePolicy{rule: rule, summary: newPolicySummary(p)}
		r.policies[p.Name] = t
		r.order = append(r.order, t)
	}
	return r, nil
}

// Run writes the answer of each line of in to out, in order, and returns a summary. It
// flushes the answers before each read of in. The error is one of in, out, ctx or the
// engine; out then has the answers before it.
func (r *Runner) Run(ctx context.Context, in io.Reader, out io.Writer) (Summary, error) {
	r.begin()
	w := bufio.NewWriterSize(out, writeBytes)
	err := r.run(ctx, bufio.NewReaderSize(&flushingReader{ctx, in, w}, readBytes), w)
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	return r.finish(), err
}

func (r *Runner) run(ctx context.Context, lines *bufio.Reader, w *bufio.Writer) error {
	for {
		b, err := nextLine(lines)
		if err == io.EOF {
			return nil
		}
		r.lines++
		if err != nil && err != errTooLong {
			return err
		}
		if err == nil && (blank(b) || accesslog.IsTraceHeader(b) && r.header(b) == nil) {
			continue
		}
		line, err := r.answer(ctx, b, err == errTooLong, w.AvailableBuffer())
		if err != nil {
			return fmt.Errorf("line %d: %w", r.lines, err)
		}
		if _, err := w.Write(line); err != nil {
			return err
		}
	}
}

// answer appends the answer of one line. The error is the engine's; then nothing is
// appended.
func (r *Runner) answer(ctx context.Context, b []byte, cut bool, out []byte) ([]byte, error) {
	res, t, err := r.decideLine(ctx, b, cut)
	if err != nil {
		if !isLineError(err) {
			return out, err
		}
		res.problem = fmt.Sprintf("line %d: %v", r.lines, err)
	}
	r.count(&res, t)
	return res.appendTo(out), nil
}

// header reads the header of a recorded trace into the summary.
func (r *Runner) header(b []byte) error {
	h, err := accesslog.ParseTraceHeader(b)
	if err != nil {
		return &LineError{Problem: err.Error()}
	}
	r.summary.Sample = max(r.summary.Sample, h.Sample)
	r.summary.Dropped += h.Dropped
	return nil
}

// decideLine reads and decides a line; t is nil if the policy is unknown.
func (r *Runner) decideLine(ctx context.Context, b []byte, cut bool) (res result, t *tracePolicy, err error) {
	if cut {
		return res, nil, errTooLong
	}
	if accesslog.IsTraceHeader(b) { // one that run could not read
		return res, nil, r.header(b)
	}
	line := &r.line
	err = r.parser.parse(b, line)
	res.op, res.at, res.hasAt = line.Op, line.At, line.has("at_us")
	if err != nil {
		if !res.hasAt {
			res.at, res.hasAt = parseAt(b)
		}
		return res, nil, err
	}
	if t = r.policies[line.Policy]; t == nil {
		return res, nil, r.unknownPolicy(line.Policy)
	}
	target, err := t.rule.Target(line.Key)
	if err != nil {
		return res, t, err
	}
	err = t.run(ctx, line, target, &res)
	return res, t, err
}

// isLineError reports whether err concerns one line only (R14), so that the replay goes
// on. After other errors the engine cannot decide.
func isLineError(err error) bool {
	var bad *LineError
	return errors.As(err, &bad) || answer.IsBadInput(err) || errors.Is(err, weir.ErrFull)
}

func (r *Runner) unknownPolicy(name string) error {
	const most = 8
	var known []string
	for _, t := range r.order {
		if len(known) == most {
			known = append(known, "…")
			break
		}
		known = append(known, t.summary.Policy)
	}
	return &LineError{Problem: fmt.Sprintf("unknown policy %q; the policies are %s",
		shorten.Text(name), strings.Join(known, ", "))}
}

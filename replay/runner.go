package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/enforce"
	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/policy"
)

// Runner replays traces against policies on one engine. Histories stay in the
// engine from one Run to the next. A Runner is used by one goroutine at a time.
type Runner struct {
	targets map[string]*target
	order   []*target
	parser  *parser
	line    Line
	lines   int64 // lines met, blank ones included
	summary Summary
}

// New returns a Runner of the policies on the engine. The error is the
// *weir.PolicyError of the first policy that is wrong, or says which name is
// used twice.
func New(policies []weir.Policy, engine weir.Engine) (*Runner, error) {
	all := make([]*policy.Policy, len(policies))
	for i, p := range policies {
		all[i] = &policy.Policy{Policy: p}
	}
	return runnerOf(all, engine)
}

// NewFile is New of the policies of a file, with all that the file says of them:
// plans, overrides at the instant of each line, counts of reports, and shadows,
// which let pass what they would deny.
func NewFile(f *policy.File, engine weir.Engine) (*Runner, error) {
	return runnerOf(f.Policies, engine)
}

func runnerOf(policies []*policy.Policy, engine weir.Engine) (*Runner, error) {
	r := &Runner{
		targets: make(map[string]*target, len(policies)),
		parser:  newParser(newInterner()),
	}
	for _, p := range policies {
		rule, err := enforce.NewRule(p, engine)
		if err != nil {
			return nil, err
		}
		if r.targets[p.Name] != nil {
			return nil, fmt.Errorf("replay: two policies are named %q; lines name their policy, so give each its own", p.Name)
		}
		t := &target{rule: rule, summary: newPolicySummary(p)}
		r.targets[p.Name] = t
		r.order = append(r.order, t)
	}
	return r, nil
}

// Run answers every line of in on out, in order, and returns what they came to.
// It writes out what it has before it waits for more input. The error is one of
// in, of out, of ctx or of an engine that could not decide; out then holds the
// answers up to there.
func (r *Runner) Run(ctx context.Context, in io.Reader, out io.Writer) (Summary, error) {
	r.begin()
	w := &answers{to: out}
	err := r.run(ctx, newLineReader(ctx, in, w), w)
	if flushErr := w.flush(); err == nil {
		err = flushErr
	}
	return r.finish(), err
}

func (r *Runner) run(ctx context.Context, lines *lineReader, w *answers) error {
	for {
		b, err := lines.next()
		if err == io.EOF {
			return nil
		}
		r.lines++
		if err != nil && err != tooLong {
			return err
		}
		if err == nil && blank(b) {
			continue
		}
		if w.buf, err = r.answer(ctx, b, err == tooLong, w.buf); err != nil {
			return fmt.Errorf("line %d: %w", r.lines, err)
		}
		if err := w.flushIfFull(); err != nil {
			return err
		}
	}
}

// answer appends the answer to one line. The error is the engine's when it
// could not decide; then nothing is appended.
func (r *Runner) answer(ctx context.Context, b []byte, cut bool, out []byte) ([]byte, error) {
	res, t, err := r.decide(ctx, b, cut)
	if err != nil {
		if !refusal(err) {
			return out, err
		}
		res.problem = fmt.Sprintf("line %d: %v", r.lines, err)
	}
	r.count(&res, t)
	return res.appendTo(out), nil
}

// decide reads a line and asks the engine; t is nil where no policy was found.
func (r *Runner) decide(ctx context.Context, b []byte, cut bool) (res result, t *target, err error) {
	if cut {
		return res, nil, tooLong
	}
	line := &r.line
	err = r.parser.parse(b, line)
	res.op, res.at, res.hasAt = line.Op, line.At, line.given&fieldAt != 0
	if err != nil {
		if !res.hasAt {
			res.at, res.hasAt = readableAt(b)
		}
		return res, nil, err
	}
	if t = r.targets[line.Policy]; t == nil {
		return res, nil, r.unknownPolicy(line.Policy)
	}
	whose, err := t.whose(line)
	if err != nil {
		return res, t, err
	}
	err = t.do(ctx, line, whose, &res)
	return res, t, err
}

// refusal reports whether err refuses one line only (R14), so that the replay
// goes on; anything else means that the engine cannot decide at all.
func refusal(err error) bool {
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
		clip([]byte(name)), strings.Join(known, ", "))}
}

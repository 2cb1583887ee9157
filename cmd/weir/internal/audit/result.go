package audit

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/internal/adversary"
	"github.com/weirlimit/weir/internal/duration"
)

// A Verdict is the finding of an audit.
type Verdict string

const (
	Held      Verdict = "held"
	Broken    Verdict = "broken"
	Undecided Verdict = "undecided"
)

// counts has the requests with a decision by their answers, and the others by their reasons.
type counts struct {
	answers map[Answer]int
	errors  map[string]int
}

func newCounts() counts {
	return counts{answers: map[Answer]int{}, errors: map[string]int{}}
}

func (c counts) allowed() int { return c.sum(true) }
func (c counts) denied() int  { return c.sum(false) }

func (c counts) sum(allowed bool) (n int) {
	for a, count := range c.answers {
		if a.Allowed == allowed {
			n += count
		}
	}
	return n
}

// A Result is the result of an audit: an object for --json, or text for people.
type Result struct {
	Limit    int     `json:"limit"`
	WindowMS int64   `json:"window_ms"`
	Allowed  int     `json:"allowed"` // in the worst window
	Verdict  Verdict `json:"verdict"`
	Why      string  `json:"why"`
	Worst    *Worst  `json:"worst,omitempty"` // nil: nothing was allowed

	Moves    []MoveResult `json:"moves"`
	Requests int          `json:"requests"`
	TookMS   int64        `json:"took_ms"`
	Answers  []Count      `json:"answers"` // most first
	Errors   []Count      `json:"errors"`  // requests without a decision, most first

	Next string `json:"-"` // the next step after an undecided audit
	Away bool   `json:"-"` // it is undecided because the target is gone

	window time.Duration
}

// Worst is the worst window.
type Worst struct {
	From     time.Time `json:"from"` // the first call
	To       time.Time `json:"to"`   // the last return
	Move     string    `json:"move"`
	About    string    `json:"about"`
	GrantsUS []Span    `json:"grants_us"` // since From
}

// A Span is the call and the return of a grant, in microseconds.
type Span [2]int64

// MoveResult is the worst window of one move.
type MoveResult struct {
	Move    string `json:"move"`
	Allowed int    `json:"allowed"`
}

// A Count is the number of equal answers, or of equal errors.
type Count struct {
	Answer  string `json:"answer"`
	Allowed bool   `json:"allowed"`
	N       int    `json:"n"`
}

func newResult(plan Plan) *Result {
	return &Result{
		Limit:    plan.Limit,
		WindowMS: plan.Window.Milliseconds(),
		window:   plan.Window,
		Moves:    []MoveResult{},
	}
}

// add adds the grants of a move.
func (r *Result) add(m move, grants []adversary.Grant, base time.Time) {
	worst := adversary.Worst(grants, r.window)
	r.Moves = append(r.Moves, MoveResult{Move: m.name, Allowed: len(worst)})
	if len(worst) <= r.Allowed {
		return
	}
	r.Allowed = len(worst)
	first, last := worst[0].Call, int64(0)
	spans := make([]Span, len(worst))
	for i, g := range worst {
		last = max(last, g.Return)
		spans[i] = Span{(g.Call - first) / 1000, (g.Return - first) / 1000}
	}
	r.Worst = &Worst{
		From:     base.Add(time.Duration(first)).UTC().Truncate(time.Microsecond),
		To:       base.Add(time.Duration(last)).UTC().Truncate(time.Microsecond),
		Move:     m.name,
		About:    m.about,
		GrantsUS: spans,
	}
}

// conclude sets the counts and the verdict. ended is the reason of an early end, or nil.
func (r *Result) conclude(c counts, took time.Duration, ended error, moves int) {
	r.TookMS = took.Milliseconds()
	r.setCounts(c)
	problem, _ := errors.AsType[*Problem](ended)
	allowed, denied := c.allowed(), c.denied()
	isBroken := r.Allowed > r.Limit
	neverFull := r.Allowed < r.Limit && denied == 0

	r.Verdict = Undecided
	switch {
	case isBroken && denied == 0:
		r.Verdict = Broken
		r.Why = fmt.Sprintf("no limit was seen: all %d requests were allowed; "+
			"is the limit on this path, and does it count this caller?", allowed)
	case isBroken:
		r.Verdict = Broken
		r.Why = fmt.Sprintf("%d requests were allowed in less than %s, %d above the limit",
			r.Allowed, duration.Format(r.window), r.Allowed-r.Limit)
	case problem != nil:
		r.Why = fmt.Sprintf("after %d answers it %s", allowed+denied, problem.Reason)
		r.Next, r.Away = problem.Next, problem.Away
	case ended == errNoLimit || ended == nil && neverFull:
		r.Why = fmt.Sprintf("no request was denied, and no window had more than %d of %d: "+
			"requests are delayed, or are too slow to fill a window", r.Allowed, r.Limit)
		r.Next = "audit it with a smaller limit or a longer window, from a place nearer to it"
	case ended != nil:
		r.Why = fmt.Sprintf("%v in move %d of %d", ended, max(1, len(r.Moves)), moves)
		r.Next = nextAfter(ended)
	case allowed == 0:
		r.Why = "every request was denied"
		r.Next = "wait until the limit is free, or use a key that nothing else uses"
	default:
		r.Verdict = Held
		r.Why = r.heldText()
	}
}

func (r *Result) setCounts(c counts) {
	r.Answers, r.Errors = []Count{}, []Count{}
	for a, n := range c.answers {
		r.Answers = append(r.Answers, Count{Answer: a.Word, Allowed: a.Allowed, N: n})
		r.Requests += n
	}
	for reason, n := range c.errors {
		r.Errors = append(r.Errors, Count{Answer: reason, N: n})
		r.Requests += n
	}
	for _, list := range [][]Count{r.Answers, r.Errors} {
		slices.SortFunc(list, func(a, b Count) int {
			return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Answer, b.Answer))
		})
	}
}

// nextAfter returns the next step after an early end.
func nextAfter(ended error) string {
	switch ended {
	case errRequests:
		return "raise --max-requests"
	case errTime:
		return "raise --max-time"
	}
	return ""
}

// heldText returns the reason of a limit that held.
func (r *Result) heldText() string {
	text := fmt.Sprintf("no window had more than %d; "+
		"an audit finds faults and cannot prove that there are none", r.Allowed)
	if r.Allowed < r.Limit {
		text = fmt.Sprintf("no window had more than %d of %d; "+
			"the limit is stricter, or others use it up, too", r.Allowed, r.Limit)
	}
	if len(r.Errors) > 0 {
		text += "; requests with errors may hide some"
	}
	return text
}

// Write writes the result for people. Without a verdict the last line is left out: it is the
// message of an error.
func (r *Result) Write(b *strings.Builder) {
	fmt.Fprintf(b, "worst window: %d of %d allowed in %s\n",
		r.Allowed, r.Limit, duration.Format(r.window))
	if w := r.Worst; w != nil {
		from, to := w.From.Local(), w.To.Local()
		fmt.Fprintf(b, "  when: %s to %s\n",
			from.Format("2006-01-02 15:04:05.000000"), to.Format("15:04:05.000000 MST"))
		fmt.Fprintf(b, "  allowed in its tenths: %s\n", r.tenths())
		fmt.Fprintf(b, "  found by \"%s\": %s\n", w.Move, w.About)
	}
	var moves []string
	for _, m := range r.Moves {
		moves = append(moves, fmt.Sprintf("%s %d", m.Move, m.Allowed))
	}
	fmt.Fprintf(b, "moves: %s\n", strings.Join(moves, ", "))
	took := time.Duration(r.TookMS) * time.Millisecond
	fmt.Fprintf(b, "requests: %d in %.1fs: %s\n", r.Requests, took.Seconds(), r.countsText())
	if r.Verdict != Undecided {
		fmt.Fprintf(b, "%s: %s\n", r.Verdict, r.Why)
	}
}

// tenths returns the calls of the grants in each tenth of the window.
func (r *Result) tenths() string {
	var n [10]int
	for _, span := range r.Worst.GrantsUS {
		n[span[0]*10/r.window.Microseconds()]++
	}
	return strings.Trim(fmt.Sprint(n), "[]")
}

// countsText returns the numbers of the answers and errors, most first.
func (r *Result) countsText() string {
	var parts []string
	for _, a := range r.Answers {
		word := "denied"
		if a.Allowed {
			word = "allowed"
		}
		parts = append(parts, fmt.Sprintf("%d %s (%s)", a.N, word, a.Answer))
	}
	if len(r.Errors) == 0 {
		return strings.Join(append(parts, "no errors"), ", ")
	}
	for _, e := range r.Errors {
		parts = append(parts, fmt.Sprintf("%d without a decision: it %s", e.N, e.Answer))
	}
	return strings.Join(parts, ", ")
}

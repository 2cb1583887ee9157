package conformance

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spec"
)

// wrongEngine is the specification with one fault.
type wrongEngine struct {
	*spec.Engine
	plan   func(weir.Policy) weir.Policy // replaces the limits
	key    func(string) string           // replaces a value of the key
	ask    func(weir.Request) weir.Request
	answer func(weir.Request, *weir.Decision)
	decide func(e *spec.Engine, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error)
	last   func(int64) int64 // replaces the span of Count
}

func (w *wrongEngine) taken(p *weir.Plan, k weir.Key) (*weir.Plan, weir.Key) {
	if w.plan != nil {
		if q, err := w.plan(p.Policy()).Plan(); err == nil { // some limits have no such fault
			p = q
		}
	}
	if w.key != nil {
		var values []string
		for i := range k.Len() {
			values = append(values, w.key(k.Value(i)))
		}
		k = weir.K(values...)
	}
	return p, k
}

func (w *wrongEngine) Decide(ctx context.Context, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	limits := p.Policy().Limits
	p, k = w.taken(p, k)
	asked := a
	if w.ask != nil {
		a = w.ask(a)
	}
	if w.decide != nil {
		return w.decide(w.Engine, p, k, a)
	}
	d, err := w.Engine.Decide(ctx, p, k, a)
	if w.answer != nil && err == nil {
		w.answer(asked, &d)
	}
	if d.Replayed {
		return d, err
	}
	for i := range a.States { // the fault is not that the numbers are told wrong
		s := &a.States[i]
		s.Name, s.Max, s.Window, s.MinInterval = limits[i].Name, limits[i].Max, limits[i].Window, limits[i].MinInterval
	}
	return d, err
}

func (w *wrongEngine) Refund(ctx context.Context, p *weir.Plan, k weir.Key, at, n, now int64) (int64, error) {
	p, k = w.taken(p, k)
	return w.Engine.Refund(ctx, p, k, at, n, now)
}

func (w *wrongEngine) Count(ctx context.Context, p *weir.Plan, k weir.Key, i int, last, now int64) (int64, error) {
	p, k = w.taken(p, k)
	if w.last != nil {
		last = w.last(last)
	}
	return w.Engine.Count(ctx, p, k, i, last, now)
}

// limitsOf is limitsWith for the limits of one kind.
func limitsOf(kind weir.Kind, change func(*weir.Limit)) func(weir.Policy) weir.Policy {
	return limitsWith(func(l *weir.Limit) {
		if l.Kind == kind {
			change(l)
		}
	})
}

// limitsWith returns a plan fault that changes every limit.
func limitsWith(change func(*weir.Limit)) func(weir.Policy) weir.Policy {
	return func(p weir.Policy) weir.Policy {
		for i := range p.Limits {
			change(&p.Limits[i])
		}
		return p
	}
}

// checkThenAct peeks, and then records in a second step: right for one caller, wrong for
// concurrent ones.
func checkThenAct(e *spec.Engine, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	ctx := context.Background()
	if a.Op != weir.OpAttempt || a.N == 0 || p.Mode() != weir.AllOrNothing {
		return e.Decide(ctx, p, k, a)
	}
	if a.At.IsZero() {
		look := a
		look.Op = weir.OpPeek
		d, err := e.Decide(ctx, p, k, look)
		if err != nil || !d.Allowed {
			return d, err
		}
		runtime.Gosched()
		a.Op = weir.OpRecord
	}
	return e.Decide(ctx, p, k, a)
}

// limitByLimit decides the limits one after the other: units that a later one denies stay
// recorded in the earlier ones.
func limitByLimit(e *spec.Engine, p *weir.Plan, k weir.Key, a weir.Request) (d weir.Decision, err error) {
	ctx := context.Background()
	if a.Op != weir.OpAttempt || len(p.Limits()) == 1 {
		return e.Decide(ctx, p, k, a)
	}
	for i, limit := range p.Policy().Limits {
		q := p.Policy()
		q.Limits = []weir.Limit{limit}
		one, err := q.Plan()
		if err != nil {
			return d, err
		}
		var values []string
		for _, dim := range p.Limits()[i].By {
			values = append(values, k.Value(dim))
		}
		if d, err = e.Decide(ctx, one, weir.K(values...), weir.Request{N: a.N, At: a.At}); err != nil || !d.Allowed {
			break
		}
	}
	a.Op = weir.OpPeek
	look, err := e.Decide(ctx, p, k, a)
	look.Allowed, look.Granted, look.Limit = d.Allowed, d.Granted, d.Limit
	return look, err
}

// recallThenAct looks an id up, and then decides, with a step in between: right for one
// caller, wrong for many with one id. The first caller of all waits in that step until
// another one has looked up the same id.
func recallThenAct() func(*spec.Engine, *weir.Plan, weir.Key, weir.Request) (weir.Decision, error) {
	var mu sync.Mutex
	known := map[string]weir.Decision{}
	first, met := "", make(chan struct{})
	return func(e *spec.Engine, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
		id := a.ID
		mu.Lock()
		d, ok := known[id]
		leads := id != "" && first == ""
		if leads {
			first = id
		} else if id != "" && id == first {
			close(met)
			first = "over"
		}
		mu.Unlock()
		if d.Replayed = true; ok && id != "" {
			return d, nil
		}
		if leads {
			<-met
		}
		a.ID = ""
		d, err := e.Decide(context.Background(), p, k, a)
		mu.Lock()
		defer mu.Unlock()
		if id != "" && d.Granted > 0 {
			known[id] = d
		}
		return d, err
	}
}

// cachesDenials repeats a denial for as long as its wait lasts. It ends at a decision of
// the same key, but not at one of another key that shares a limit.
func cachesDenials() func(*spec.Engine, *weir.Plan, weir.Key, weir.Request) (weir.Decision, error) {
	var mu sync.Mutex
	denied := map[string]weir.Decision{}
	return func(e *spec.Engine, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
		mu.Lock()
		defer mu.Unlock()
		key := p.Name()
		if k.Len() > 0 {
			key += k.Value(0)
		}
		again := fmt.Sprint(key, a.N)
		if d, ok := denied[again]; ok && a.At.IsZero() && a.Op == weir.OpAttempt {
			passed := time.Since(d.At).Truncate(us)
			if d.RetryAfter -= passed; d.RetryAfter > 0 {
				d.At, d.ResetAfter = d.At.Add(passed), d.ResetAfter-passed
				return d, nil
			}
		}
		for n := range int64(4) {
			delete(denied, fmt.Sprint(key, n))
		}
		d, err := e.Decide(context.Background(), p, k, a)
		if err == nil && !d.Allowed && a.Op == weir.OpAttempt && p.Mode() == weir.AllOrNothing {
			denied[again] = d
		}
		return d, err
	}
}

// recordsDenials records denied units in every mode.
func recordsDenials(e *spec.Engine, p *weir.Plan, k weir.Key, a weir.Request) (weir.Decision, error) {
	d, err := e.Decide(context.Background(), p, k, a)
	if err == nil && !d.Allowed && a.Op == weir.OpAttempt {
		a.Op, a.States = weir.OpRecord, nil
		if _, err := e.Decide(context.Background(), p, k, a); err != nil {
			return d, nil
		}
	}
	return d, err
}

// wrongEngines are faults that limiters have had, and the layers that must see them.
var wrongEngines = []struct {
	name   string
	fault  wrongEngine
	layers string // v, d, i, h, l and o for vectors, differential, instants, hammer, live and once
}{
	{"window a microsecond short", wrongEngine{plan: limitsWith(func(l *weir.Limit) {
		l.Window = max(l.Window-us, weir.MinWindow)
		l.MinInterval = min(l.MinInterval, l.Window)
	})}, "vd"},
	{"window a microsecond long", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.Window = min(l.Window+us, weir.MaxWindow) })}, "vd"},
	{"window a fifth short", wrongEngine{plan: limitsWith(func(l *weir.Limit) {
		l.Window = max(l.Window*4/5, weir.MinWindow).Truncate(us)
		l.MinInterval = min(l.MinInterval, l.Window)
	})}, "vdh"},
	{"one unit too many", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.Max = min(l.Max+1, weir.MaxUnits) })}, "vdh"},
	{"one unit too few", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.Max = max(l.Max-1, 0) })}, "vdh"},
	{"gap never enforced", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.MinInterval = 0 })}, "vdh"},
	{"cells ignored", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.Cells = 0 })}, "vd"},
	{"kinds ignored", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.Kind, l.Window, l.MaxHold = weir.Rolling, l.Window+l.MaxHold, 0 })}, "vd"},
	{"the kinds of window mistaken for each other", wrongEngine{plan: limitsWith(func(l *weir.Limit) {
		if l.Kind == weir.Fixed || l.Kind == weir.FixedFromFirst {
			l.Kind = weir.Fixed + weir.FixedFromFirst - l.Kind
		}
	})}, "vdh"},
	{"every limit has windows of the calendar", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.Kind, l.Cells, l.Window, l.MaxHold = weir.Fixed, 0, l.Window+l.MaxHold, 0 })}, "vdh"},
	{"buckets of one unit more", wrongEngine{plan: limitsOf(weir.Bucket, func(l *weir.Limit) { l.Burst++ })}, "vdh"},
	{"buckets refill a microsecond a window too fast", wrongEngine{plan: limitsOf(weir.Bucket, func(l *weir.Limit) { l.Window -= us })}, "vd"},
	{"buckets mistaken for windows", wrongEngine{plan: limitsOf(weir.Bucket, func(l *weir.Limit) { l.Kind, l.Burst = weir.Rolling, 0 })}, "vdh"},
	{"zones ignored", wrongEngine{plan: limitsOf(weir.Fixed, func(l *weir.Limit) { l.Zone = "" })}, "vd"},
	{"anchors ignored", wrongEngine{plan: limitsOf(weir.Fixed, func(l *weir.Limit) { l.Anchor = 0 })}, "vd"},
	{"holds a microsecond short", wrongEngine{plan: limitsOf(weir.Concurrency, func(l *weir.Limit) { l.MaxHold -= us })}, "vd"},
	{"costs ignored", wrongEngine{plan: limitsWith(func(l *weir.Limit) { l.Cost = 0 })}, "vd"},
	{"costs of a unit too much", wrongEngine{plan: limitsWith(func(l *weir.Limit) {
		if l.Cost > 0 {
			l.Cost = min(l.Cost+1, weir.MaxUnits)
		}
	})}, "vd"},
	{"mode ignored", wrongEngine{plan: func(p weir.Policy) weir.Policy { p.Mode = weir.AllOrNothing; return p }}, "vd"},
	{"histories by place in the policy", wrongEngine{plan: func(p weir.Policy) weir.Policy {
		for i := range p.Limits {
			p.Limits[i].Name = string(rune('a' + i))
		}
		return p
	}}, "vd"},
	{"policies share histories", wrongEngine{plan: func(p weir.Policy) weir.Policy { p.Name = "all"; return p }}, "v"},
	{"keys end at NUL", wrongEngine{key: func(v string) string { v, _, _ = strings.Cut(v, "\x00"); return v }}, "vd"},
	{"keys cut to 512 bytes", wrongEngine{key: func(v string) string { return v[:min(len(v), 512)] }}, "v"},
	{"instants in milliseconds", wrongEngine{ask: func(a weir.Request) weir.Request {
		a.At = a.At.Truncate(time.Millisecond)
		return a
	}}, "vd"},
	{"without an instant it decides in 1970", wrongEngine{ask: func(a weir.Request) weir.Request {
		if a.At.IsZero() {
			a.At = time.UnixMicro(0)
		}
		return a
	}}, "i"},
	{"in 1970 it decides now", wrongEngine{ask: func(a weir.Request) weir.Request {
		if micros, given := a.Instant(); given && micros == 0 {
			a.At = time.Time{}
		}
		return a
	}}, "vi"},
	{"a peek is an attempt", wrongEngine{ask: func(a weir.Request) weir.Request {
		if a.Op == weir.OpPeek {
			a.Op = weir.OpAttempt
		}
		return a
	}}, "vdh"},
	{"wait a microsecond short", wrongEngine{answer: func(_ weir.Request, d *weir.Decision) {
		if d.RetryAfter > 0 {
			d.RetryAfter -= us
		}
	}}, "vd"},
	{"wait in milliseconds", wrongEngine{answer: func(_ weir.Request, d *weir.Decision) { d.RetryAfter = d.RetryAfter.Round(time.Millisecond) }}, "vd"},
	{"never is a long wait", wrongEngine{answer: func(_ weir.Request, d *weir.Decision) {
		if d.RetryAfter == weir.Never {
			d.RetryAfter = time.Hour
		}
	}}, "vd"},
	{"count a microsecond long", wrongEngine{last: func(last int64) int64 { return last + 1 }}, "vd"},
	{"denials are recorded", wrongEngine{decide: recordsDenials}, "vdh"},
	{"limit by limit", wrongEngine{decide: limitByLimit}, "vdh"},
	{"denials are cached by key alone", wrongEngine{decide: cachesDenials()}, "l"},
	{"denials are marked as cached", wrongEngine{answer: func(_ weir.Request, d *weir.Decision) { d.Cached = !d.Allowed }}, "vdhlo"},
	{"check then act", wrongEngine{decide: checkThenAct}, "h"},
	{"ids ignored", wrongEngine{ask: func(a weir.Request) weir.Request { a.ID = ""; return a }}, "vdo"},
	{"an id is known before it is recorded", wrongEngine{decide: recallThenAct()}, "o"},
	{"ids of records ignored", wrongEngine{ask: func(a weir.Request) weir.Request {
		if a.Op == weir.OpRecord {
			a.ID = ""
		}
		return a
	}}, "vd"},
	{"ids cut short", wrongEngine{ask: func(a weir.Request) weir.Request { a.ID = a.ID[:min(len(a.ID), 127)]; return a }}, "v"},
}

package adversary

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const fixedLimit, fixedWindow = 20, time.Second

// TestLearntEdgeFindsTheWindow of a counter with windows from any instant. The other
// timings find it only by chance.
func TestLearntEdgeFindsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(123 * time.Millisecond)
		c := newCaller(&fixed{start: time.Now()})
		time.Sleep(456 * time.Millisecond)
		learntEdge(c, int64(fixedWindow))
		if got := MaxGrants(c.Grants, fixedWindow); got != 2*fixedLimit {
			t.Errorf("learnt edge: %d in one window of a fixed counter, want %d", got, 2*fixedLimit)
		}
	})
}

// TestLearntEdgeFindsTheWindowOfASmallLimit of a counter that weighs the window before.
func TestLearntEdgeFindsTheWindowOfASmallLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 5
		time.Sleep(123 * time.Millisecond)
		s := &sliding{start: time.Now(), limit: limit}
		c := &Caller{Allow: s.allow, Base: time.Now(), Pause: time.Millisecond, Polled: 1, Limit: limit}
		time.Sleep(456 * time.Millisecond)
		learntEdge(c, int64(fixedWindow))
		got, want := MaxGrants(c.Grants, fixedWindow), 2*limit-2 // the unit that opened it still weighs
		if got != want {
			t.Errorf("learnt edge: %d in one window of a weighing counter, want %d", got, want)
		}
	})
}

// sliding counts in windows that began at start, and weighs the window before by the part of it
// that is younger than a window.
type sliding struct {
	start        time.Time
	limit        int
	index        int64
	before, here int
}

func (s *sliding) allow() bool {
	age := time.Since(s.start)
	if i := int64(age / fixedWindow); i != s.index {
		if s.before = 0; i == s.index+1 {
			s.before = s.here
		}
		s.index, s.here = i, 0
	}
	rest := 1 - float64(age%fixedWindow)/float64(fixedWindow)
	if float64(s.before)*rest+float64(s.here)+1 > float64(s.limit) {
		return false
	}
	s.here++
	return true
}

// TestTimingsLast: a timing reaches its polling no later than it promises, in all phases of a
// window.
func TestTimingsLast(t *testing.T) {
	for _, timing := range Timings() {
		for phase := time.Duration(0); phase < fixedWindow; phase += fixedWindow / 8 {
			synctest.Test(t, func(t *testing.T) {
				c := newCaller(&fixed{start: time.Now()})
				time.Sleep(phase)
				began := c.now()
				from := timing.Play(c, fixedWindow)
				took := time.Duration(from - began)
				most := time.Duration(timing.Lasts*float64(fixedWindow)) + c.Pause
				if took > most {
					t.Errorf("%s at %v: polls after %v, want at most %v", timing.Name, phase, took, most)
				}
			})
		}
	}
}

// TestTogetherFindsTheWindow that began with the first request; that request is outside the span.
func TestTogetherFindsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixed{start: time.Now()}
		callers := make([]*Caller, 8)
		for i := range callers {
			callers[i] = newCaller(f)
		}
		grants := Together(callers, fixedWindow)
		if got, want := MaxGrants(grants, fixedWindow), 2*fixedLimit-1; got != want {
			t.Errorf("%d in one window, want %d", got, want)
		}
	})
}

// TestDoneEndsAllMoves, also in the silence of one.
func TestDoneEndsAllMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		close(done)
		for _, timing := range Timings() {
			c := newCaller(&fixed{start: time.Now()})
			c.Done = done
			began := time.Now()
			timing.Play(c, time.Hour)
			Together([]*Caller{c}, time.Hour)
			if took := time.Since(began); took > 0 || len(c.Grants) > 2 {
				t.Errorf("%s: went on for %v, with %d grants", timing.Name, took, len(c.Grants))
			}
		}
	})
}

func newCaller(f *fixed) *Caller {
	return &Caller{Allow: f.allow, Base: time.Now(), Pause: time.Millisecond, Polled: 1}
}

// fixed counts in windows that began at start.
type fixed struct {
	start time.Time
	mu    sync.Mutex // protects the following
	index int64
	count int
}

func (f *fixed) allow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := int64(time.Since(f.start) / fixedWindow); i != f.index {
		f.index, f.count = i, 0
	}
	f.count++
	return f.count <= fixedLimit
}

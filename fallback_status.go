package weir

import "time"

// FallbackStatus is how a FallbackEngine and its store are doing, for logs,
// metrics and health pages.
type FallbackStatus struct {
	State    StoreState
	Since    time.Time // when State began
	Cause    error     // what the last failure was, while the store is down
	Failures int64     // calls that the store did not decide; those not put to it are not among them
	Timeouts int64     // of the failures, calls that got no answer within the budget
	Degraded int64     // decisions made without the store
	Overdue  int64     // calls that ran out of time and have not returned yet
}

// Status returns how the engine and its store are doing. It does not ask the store.
func (f *FallbackEngine) Status() FallbackStatus {
	g := f.store
	s := FallbackStatus{
		Failures: g.failures.Load(),
		Timeouts: g.timeouts.Load(),
		Degraded: g.degraded.Load(),
		Overdue:  g.overdue.Load(),
	}
	s.State, s.Since, s.Cause = g.breaker.status()
	return s
}

// Mode returns what becomes of decisions that the store cannot make.
func (f *FallbackEngine) Mode() OutageMode { return f.mode }

// status returns the state, since when, and why.
func (b *breaker) status() (StoreState, time.Time, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open.Load() {
		return StoreUp, b.since, nil
	}
	return StoreDown, b.since, b.shut.Load().cause
}

package weir

import "time"

// FallbackOption adjusts a FallbackEngine.
type FallbackOption func(*settings)

type settings struct {
	budget    time.Duration
	after     int
	hear      func(StoreState, error)
	instances int64
	least     int64
	shareOf   func(policy string, l Limit) int64
	memory    *Memory
	hold      bool
}

// Budget is how long the store may take for one call: 50ms by default. Then the
// caller is answered without it. Choose it below the deadlines of callers, since
// whoever leaves first is told of his own deadline, and it does not count as a
// failure of the store. 0 or less is no budget: then a store that hangs keeps its
// callers until their contexts end, if it heeds them.
//
// It costs a timer for each call, and a goroutine too unless the engine is a
// PromptEngine. A memory engine never waits and is never timed.
func Budget(d time.Duration) FallbackOption {
	return func(s *settings) { s.budget = max(d, 0) }
}

// OpenAfter is how many calls in a row must fail before the store is taken to be
// down: 5 by default. With 0 or less it never is, and every call tries it.
func OpenAfter(n int) FallbackOption {
	return func(s *settings) { s.after = max(n, 0) }
}

// OnStoreState calls f when the store is found to be down, with the error of the
// last call, and when it is found to be up again, with nil: for logs and metrics.
// Calls of f come one at a time and in order, on a goroutine of a caller or of a probe, who
// waits for f to return. nil is no option at all.
func OnStoreState(f func(s StoreState, cause error)) FallbackOption {
	return func(s *settings) {
		if f != nil {
			s.hear = f
		}
	}
}

// Instances is the largest number of processes that decide on the store at any
// time. In mode Local each grants a share of Max/n of every limit, rounded down.
// The default is 1: every process grants the whole limit. More processes than n
// pass the bounds of Local in proportion. n below 1 is taken as 1. Other modes do
// not use it.
func Instances(n int) FallbackOption {
	return func(s *settings) { s.instances = int64(max(n, 1)) }
}

// AtLeastOne makes every share at least one unit, unless the limit's Max is 0. In
// sum the processes may then grant more than Max: up to one unit each.
func AtLeastOne() FallbackOption {
	return func(s *settings) { s.least = 1 }
}

// ShareOf sets the share of each limit, in units per window: what f returns, but
// not below 0 and not above the limit's Max. It takes the place of Instances and
// AtLeastOne. f is called once for each limit of a compiled policy, when the share
// first decides by it. nil is no option at all.
func ShareOf(f func(policy string, l Limit) int64) FallbackOption {
	return func(s *settings) {
		if f != nil {
			s.shareOf = f
		}
	}
}

// LocalMemory makes mode Local keep its shares in m, such as a memory engine with
// a cap: at the cap new keys get ErrFull. The default is a memory engine of its
// own without one. m must not serve anything else: its histories have the names
// of the store's. nil is no option at all.
func LocalMemory(m *Memory) FallbackOption {
	return func(s *settings) {
		if m != nil {
			s.memory = m
		}
	}
}

// Hold keeps what mode Local grants a window away from what the store grants, so
// that never more than Max are granted in a window, not even across the ends of
// an outage. Counted from the first call that failed, it refuses attempts, with
// Degraded, for the longest window of the policy and a second more. And when the
// store is back after an outage of about that length, it grants for as long once
// more only what both the store and the share grant. RetryAfter says how long.
//
// A process that the store never answered does not know how long it had been out
// for others, and takes it for long: make one call, such as a Peek, when it starts.
//
// It holds for processes that all lose the store within a second and find it again
// within a second: one that is cut off alone grants its share beside the store.
// One that asks nothing during an outage does not know of it, and does not heed its
// share at its end. Calls at instants that the caller passes are held in real time.
//
// Other modes do not use it.
func Hold() FallbackOption {
	return func(s *settings) { s.hold = true }
}

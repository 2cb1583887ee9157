package fallback

import "fmt"

// Mode selects the decision for calls that the store cannot decide (R15).
type Mode uint8

const (
	// FailClosed returns the store's error: no decision, nothing allowed. The limits
	// hold and the work waits. An unknown mode is FailClosed.
	FailClosed Mode = iota

	// FailOpen allows everything that an empty store would allow and records nothing.
	// Attempts of more than a limit's Max are still denied. No limit holds during the
	// outage.
	FailOpen

	// Local decides by a share of every limit in the memory of this process. With
	// [Instances] of n, each share is Max/n rounded down. A window holds at most
	// 2 * Max: Max granted by the store and Max granted by all shares together.
	// MinInterval holds within each process, not between processes.
	Local
)

// String returns the name of the mode's constant.
func (m Mode) String() string {
	if m > Local {
		return fmt.Sprintf("Mode(%d)", uint8(m))
	}
	return [...]string{"FailClosed", "FailOpen", "Local"}[m]
}

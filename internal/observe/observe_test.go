package observe

import "testing"

// Names are labels of metrics: each is its own.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for f := range Protocol(Protocols) {
		seen[f.String()] = true
	}
	for o := range Outcome(Outcomes) {
		seen[o.String()] = true
	}
	if len(seen) != Protocols+Outcomes || seen[""] {
		t.Errorf("%d names of %d, or an empty one: %v", len(seen), Protocols+Outcomes, seen)
	}
}

package conformance

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	detector "github.com/weirlimit/weir/internal/testkit/race"
)

// TestForgettingEngine: the kit demands no more than the contract. An engine that forgets each
// history, block and reservation as soon as it may passes.
func TestForgettingEngine(t *testing.T) {
	c := DefaultConfig(vectorFiles)
	c.Hammers = 3
	c.Attempts = detector.Fewer(c.Attempts)
	Run(t, func(*testing.T) engine.Engine { return spec.NewForgetful(time.Hour) }, c)
}

// TestForgettingTooEarly: the kit finds an engine that forgets at the instants of callers what is
// over, though their clocks may be behind.
func TestForgettingTooEarly(t *testing.T) {
	for _, layer := range []string{"v", "d"} {
		if reportOfFault(t, layer, func() engine.Engine { return spec.NewForgetful(0) }) == "" {
			t.Errorf("layer %s did not see it", layer)
		}
	}
}

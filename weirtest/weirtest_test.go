package weirtest_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/weirtest"
)

// TestSpec runs the kit against the specification, which has no faults.
func TestSpec(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) engine.Engine { return spec.New() })
}

// TestOptions: every option reaches the kit, which still finds nothing.
func TestOptions(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) engine.Engine { return spec.New() },
		weirtest.Attempts(100), weirtest.Hammers(1), weirtest.FixedLimits(),
		weirtest.CachesDenials(100*time.Millisecond), weirtest.Separate())
}

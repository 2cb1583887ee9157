package weirtest_test

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/weirtest"
)

// TestSpec runs the kit against the specification, which has no faults.
func TestSpec(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) weir.Engine { return spec.New() })
}

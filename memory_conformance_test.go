package weir_test

import (
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirtest"
)

// TestMemoryConformance holds the memory engine to every rule.
func TestMemoryConformance(t *testing.T) {
	weirtest.Run(t, func(t *testing.T) weir.Engine { return weir.NewMemory() })
}

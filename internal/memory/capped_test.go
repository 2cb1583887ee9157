package memory_test

import (
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/conformance"
	"github.com/weirlimit/weir/internal/memory"
)

// TestFullChangesNothing: an engine at a cap of keys, or of bytes, answers what it has room for as
// the specification does. Any other call is ErrFull and changes nothing.
func TestFullChangesNothing(t *testing.T) {
	c := conformance.DefaultConfig(nil)
	c.Hammers = 120
	full, report := conformance.Capped(func(history int) engine.Engine {
		if history%2 == 0 {
			return memory.New(memory.Options{MaxKeys: int64(1 + history%7)})
		}
		return memory.New(memory.Options{MaxBytes: 10_000 + 700*int64(history%40)})
	}, c)
	if report != "" {
		t.Fatal(report)
	}
	for _, op := range []string{"take", "record", "block"} {
		if full[op] == 0 {
			t.Errorf("no %s was without room", op)
		}
	}
	if full["settle"] > 0 { // it may exceed the cap by an eighth
		t.Errorf("%d settlements were without room", full["settle"])
	}
}

//go:build !race

package replay

import (
	"bytes"
	"testing"

	"github.com/weirlimit/weir"
)

// The runtime of the race detector allocates, so `make test` counts allocations without it.

// A line with the strings of the line before costs no allocation.
func TestNoAllocations(t *testing.T) {
	r := newRunner(t, weir.NewMemory())
	out := make([]byte, 0, 4096)
	for _, line := range []string{
		`{"at_us":1790000000000000,"policy":"push","key":{"teacher":"42"},"n":1,"op":"check"}`,
		`{"at_us":1790000000000000,"policy":"bulk","key":{"host":"h","user":"\u00e9"},"n":2,"op":"check"}`,
		`{"at_us":1790000000000000,"policy":"push","key":{"teacher":"42"},"op":"peek"}`,
		`{"at_us":1790000000000000,"policy":"push","key":{"teacher":"42"},"op":"count","limit":"teacher","last_us":1000}`,
	} {
		var err error
		b := []byte(line)
		allocs := testing.AllocsPerRun(200, func() {
			if out, err = r.answer(b, nil, out[:0]); err != nil {
				t.Fatal(err)
			}
		})
		if allocs > 0 {
			t.Errorf("%s: %v allocations, want 0", line, allocs)
		}
		if !bytes.Contains(out, []byte(`"remaining"`)) {
			t.Errorf("%s: got %s", line, out)
		}
	}
}

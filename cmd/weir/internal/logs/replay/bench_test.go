package replay

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// benchTrace is a trace of checks over that many keys, about a hundred
// microseconds apart, of which most are denied.
func benchTrace(lines, keys int) []byte {
	r := rand.New(rand.NewPCG(1, 1))
	at := int64(1_790_000_000_000_000)
	var b bytes.Buffer
	for range lines {
		at += r.Int64N(200)
		fmt.Fprintf(&b, `{"at_us":%d,"policy":"push","key":{"teacher":"t%d"},"n":1,"op":"check"}`+"\n", at, r.IntN(keys))
	}
	return b.Bytes()
}

// BenchmarkRun replays on the memory engine; the goal is 1,000,000 lines a
// second on one core.
func BenchmarkRun(b *testing.B) {
	const lines = 200_000
	for _, keys := range []int{1, 10_000, 100_000} {
		trace := benchTrace(lines, keys)
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			b.SetBytes(int64(len(trace)))
			b.ReportAllocs()
			for b.Loop() {
				r := newRunner(b, weir.NewMemory())
				must.Get(r.Run(b.Context(), bytes.NewReader(trace), io.Discard))(b)
			}
			b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

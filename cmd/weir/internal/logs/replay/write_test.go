package replay

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/enforce"
)

// TestWrittenLinesAreReadAgain: a line that is written and parsed is the same, with any
// bytes in its strings.
func TestWrittenLinesAreReadAgain(t *testing.T) {
	p := new(parser)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 0))
		text := func() string {
			b := make([]byte, r.IntN(12)+1)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return strings.ToValidUTF8(string(b), "é")
		}
		want := Line{At: r.Int64N(weir.MaxInstant), Policy: text(), N: r.Int64N(3), Op: weir.Op(r.IntN(6))}
		for i := range r.IntN(4) {
			want.Key = append(want.Key, enforce.Pair{Name: text() + string(rune('a'+i)), Value: text()})
		}
		switch want.Op {
		case engine.Count:
			want.Limit, want.Last = text(), r.Int64N(9)
		case engine.Refund:
			want.GrantedAt, want.ID = r.Int64N(weir.MaxInstant), text()
		}
		written := want.AppendJSON(nil)
		var got Line
		if err := p.parse(written[:len(written)-1], &got); err != nil {
			t.Fatalf("seed %d: %s%v", seed, written, err)
		}
		if !sameLine(got, want) {
			t.Fatalf("seed %d: %s is %+v, want %+v", seed, written, got, want)
		}
	}
}

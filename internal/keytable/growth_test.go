package keytable

import (
	"encoding/binary"
	"runtime/debug"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/memstats"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// TestGrowthLeavesLittleGarbage: a growing table allocates hardly more than it holds, because a
// new block takes the memory that another one has left. So a cap on bytes bounds the memory of
// the process.
func TestGrowthLeavesLittleGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would drop the blocks that wait
	most := 1.25
	if race.Enabled {
		most = 2 // the race detector makes a sync.Pool drop some of them
	}
	table := newTable(0, 0, 1)
	group, _ := table.Group("g", 1000)
	before := memstats.Allocated()
	var key [8]byte
	for i := range uint64(race.Fewer(2_000_000)) {
		text := string(binary.LittleEndian.AppendUint64(key[:0], i))
		before += uint64(len(text))
		k := table.named(group, text)
		if s := table.Shard(k.Key); !s.Reserve(table, k.Key, 1) {
			t.Fatal("no room")
		} else {
			s.Insert(k.Key, k.text).Unlock()
		}
		if n := i + 1; n >= 300_000 && n%100_000 == 0 {
			if got, own := float64(memstats.Allocated()-before), float64(table.Bytes()); got > most*own {
				t.Errorf("%d keys: %.0f bytes were allocated, %.2f times the %.0f bytes of the table", n, got, got/own, own)
			}
		}
	}
}

package gcra

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
)

var perSecond = Limit{Burst: 4, Count: 1, Period: time.Second}

func TestTableReadsAClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := NewTable(DefaultBytes)
		ask := func(limited bool) {
			t.Helper()
			if a, err := table.Throttle(context.Background(), "k", perSecond, 5); err != nil || a.Limited != limited {
				t.Errorf("%+v, %v; want limited %v", a, err, limited)
			}
		}
		ask(false)
		time.Sleep(5*time.Second - 1)
		ask(true)
		time.Sleep(time.Nanosecond)
		ask(false)
	})
}

// TestTableForgets: keys for which nothing is owed go as others come.
func TestTableForgets(t *testing.T) {
	table := NewTable(DefaultBytes)
	for i := range 100_000 {
		if _, err := table.throttleAt(fmt.Sprint(i), perSecond, 1, int64(i)*1e6); err != nil {
			t.Fatal(err)
		}
	}
	if n := table.Len(); n > 3000 {
		t.Errorf("%d keys are held; units are owed for 1,000 of them", n)
	}
}

// TestTableKeepsWhatIsOwed: at the cap new keys are refused, known ones are not,
// and there is room again when something is owed for no longer.
func TestTableKeepsWhatIsOwed(t *testing.T) {
	const most = 1 << 20
	table := NewTable(most)
	known, refused := map[string]bool{}, 0
	for i := range 20_000 {
		key := fmt.Sprint("key ", i)
		_, err := table.throttleAt(key, perSecond, 5, 0)
		switch {
		case err == nil:
			known[key] = true
		case errors.Is(err, weir.ErrFull):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if len(known) != table.Len() || len(known) > most/slotBytes || refused == 0 {
		t.Fatalf("%d keys granted, %d held, %d refused at a cap of %d", len(known), table.Len(), refused, most/slotBytes)
	}
	for key := range known {
		if a, err := table.throttleAt(key, perSecond, 1, 1e9-1); err != nil || !a.Limited {
			t.Fatalf("%s was forgotten: %+v, %v", key, a, err)
		}
	}
	for i := range len(known) / 2 { // others come in the place of those that were there
		if _, err := table.throttleAt(fmt.Sprint("new ", i), perSecond, 1, 6e9); errors.Is(err, weir.ErrFull) {
			t.Fatal("no room though nothing is owed any more")
		}
	}
	for i := range table.shards {
		s := &table.shards[i]
		bytes := 0
		for j, slot := range s.slots {
			if bytes += len(slot.key) + slotBytes; s.index[slot.key] != j {
				t.Errorf("%q is indexed at %d and lies at %d", slot.key, s.index[slot.key], j)
			}
		}
		if bytes != s.bytes || len(s.index) != len(s.slots) {
			t.Errorf("shard %d counts %d bytes and %d names, and holds %d and %d", i, s.bytes, len(s.index), bytes, len(s.slots))
		}
	}
}

// TestTableIsShared: of many callers at one instant as many get a unit as there are.
func TestTableIsShared(t *testing.T) {
	table := NewTable(DefaultBytes)
	l := Limit{Burst: 99, Count: 1, Period: time.Hour}
	var mu sync.Mutex
	granted := 0
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				a, err := table.Throttle(context.Background(), "k", l, 1)
				if err != nil {
					t.Error(err)
				}
				if !a.Limited {
					mu.Lock()
					granted++
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
	if granted != 100 {
		t.Errorf("%d granted of 100", granted)
	}
}

func TestTableAllocatesNothingForKnownKeys(t *testing.T) {
	table := NewTable(DefaultBytes)
	ctx, l := context.Background(), Limit{Burst: 1e6, Count: 1, Period: time.Minute}
	table.Throttle(ctx, "k", l, 1)
	if n := testing.AllocsPerRun(1000, func() {
		if _, err := table.Throttle(ctx, "k", l, 1); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for each attempt", n)
	}
}

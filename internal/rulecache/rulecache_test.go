package rulecache

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"weak"

	"github.com/weirlimit/weir/engine"
)

// compile returns new rules.
func compile() *engine.Compiled {
	limits := []engine.Limit{{Name: "l", Max: 1, Window: 1e6}}
	return engine.Compile("p", engine.AllOrNothing, nil, limits)
}

// TestRulesKeepTheirValue: each of many rules finds its own latest value, without a place for
// each.
func TestRulesKeepTheirValue(t *testing.T) {
	var c Cache[int]
	all := make([]*engine.Compiled, 1000)
	for i := range all {
		if all[i] = compile(); c.Get(all[i]) != nil {
			t.Fatalf("rules %d have a value before Put", i)
		}
		for _, v := range []int{-1, i} {
			c.Put(all[i], v)
		}
	}
	for range 2 {
		for i, p := range all {
			if got := c.Get(p); got == nil || *got != i {
				t.Fatalf("rules %d have the value %v", i, got)
			}
		}
	}
	if c.Len() != len(all) {
		t.Errorf("%d values, want %d", c.Len(), len(all))
	}
	runtime.KeepAlive(all)
}

// TestRulesWithoutNumberAreNotCached: literals all have the number 0, so that the value of one
// would be that of every other.
func TestRulesWithoutNumberAreNotCached(t *testing.T) {
	var c Cache[int]
	p := &engine.Compiled{Name: "p"}
	if c.Put(p, 1); c.Get(p) != nil || c.Len() != 0 {
		t.Errorf("a literal has the value %v of %d", c.Get(p), c.Len())
	}
}

// TestValuesEndWithTheirRules: a hundred thousand rules that are dropped leave nothing, and
// rules that are kept keep their value.
func TestValuesEndWithTheirRules(t *testing.T) {
	var c Cache[[1 << 10]byte]
	kept := compile()
	value := c.Put(kept, [1 << 10]byte{})
	most := 0
	for range 100_000 {
		c.Put(compile(), [1 << 10]byte{})
		most = max(most, c.Len())
	}
	for tries := 0; c.Len() > 1; tries++ { // cleanups run on a goroutine of the runtime
		if tries == 1_000 {
			t.Fatalf("%d values are left of %d", c.Len(), most)
		}
		runtime.GC()
	}
	if c.Get(kept) != value || most > 90_000 {
		t.Errorf("the kept value is %p, want %p; at most %d values", c.Get(kept), value, most)
	}
	all := *c.recent.Load()
	for i := range all {
		if e := all[i].Load(); e != nil && e.number != kept.Number() {
			t.Errorf("place %d keeps the value of rules %d", i, e.number)
		}
	}
	runtime.KeepAlive(kept)
}

// TestRulesDoNotKeepTheCache: an engine that was dropped is collected while its rules live.
func TestRulesDoNotKeepTheCache(t *testing.T) {
	p := compile()
	c := new(Cache[int])
	c.Put(p, 1)
	gone := weak.Make(c)
	for tries := 0; gone.Value() != nil; tries++ {
		if tries == 1_000 {
			t.Fatal("the cache is still there")
		}
		runtime.GC()
	}
	runtime.KeepAlive(p)
}

// TestConcurrentUse: goroutines with rules of their own and rules in common find their values.
func TestConcurrentUse(t *testing.T) {
	var c Cache[string]
	common := make([]*engine.Compiled, 500)
	for i := range common {
		common[i] = compile()
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 4_000 {
				p := common[i%len(common)]
				if i%3 == 0 {
					p = compile()
				}
				want := fmt.Sprint(p.Number())
				if got := c.Get(p); got != nil && *got != want {
					t.Errorf("rules %s have the value %s", want, *got)
				}
				c.Put(p, want)
			}
			runtime.GC()
		})
	}
	all.Wait()
}

func BenchmarkGet(b *testing.B) {
	for _, rules := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("rules=%d", rules), func(b *testing.B) {
			var c Cache[int]
			all := make([]*engine.Compiled, rules)
			for i := range all {
				all[i] = compile()
				c.Put(all[i], i)
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if c.Get(all[i%rules]) == nil {
					b.Fatal("no value")
				}
			}
		})
	}
}

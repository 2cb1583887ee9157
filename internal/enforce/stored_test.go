package enforce

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
)

// TestFilterRejectsKeysWithoutOverride: the filter lets every key with an override pass and few
// others, also of long values that differ in their middle, and none after the last one is deleted.
func TestFilterRejectsKeysWithoutOverride(t *testing.T) {
	for _, c := range []struct{ name, format string }{
		{"short", "u%d"},
		{"medium", "customer-%d"},
		{"long", strings.Repeat("a", 20) + "%06d" + strings.Repeat("z", 20)},
	} {
		t.Run(c.name, func(t *testing.T) {
			const n = 5_000
			s, _ := storedSetOf(t, weir.NewMemory())
			rule, _ := s.Version().Rule("p")
			keyOf := func(i int) weir.Key { return engine.K("192.0.2.7", fmt.Sprintf(c.format, i)) }
			var all []*bound
			for i := range n {
				key := keyOf(i)
				b, err := rule.fit(&StoredOverride{
					Key:   map[string]string{"user": key.Value(1)},
					Limit: "a",
					Max:   2000,
				})
				if err != nil {
					t.Fatal(err)
				}
				rule.stored.add(b)
				all = append(all, b)
			}
			set := (*rule.stored.sets.Load())[0]
			passing := func(from int) (passed int) {
				for i := range n {
					key := keyOf(from + i)
					if set.table.Load().mayHave(set.hash(&key)) {
						passed++
					}
					if found := len(set.find(&key)); found > 0 != (from == 0 && set.count > 0) {
						t.Fatalf("%s has %d overrides", key.Value(1), found)
					}
				}
				return passed
			}
			if passed := passing(0); passed != n {
				t.Errorf("%d of %d keys with an override pass", passed, n)
			}
			if passed := passing(n); passed > n/10 {
				t.Errorf("%d of %d keys without an override pass, want at most a tenth", passed, n)
			}
			for _, b := range all {
				rule.stored.remove(b)
			}
			if passed := passing(0); passed > 0 || set.count > 0 {
				t.Errorf("%d keys pass, and %d nodes stay", passed, set.count)
			}
		})
	}
}

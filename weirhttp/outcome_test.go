package weirhttp

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir"
)

// limits is a policy of n limits, the first of Max 10, the second of Max 11, …
func limits(n int) weir.Policy {
	p := weir.Policy{Name: "p"}
	for i := range n {
		p.Limits = append(p.Limits, weir.Limit{Name: fmt.Sprint("limit", i), Max: int64(10 + i), Window: time.Minute})
	}
	return p
}

// TestOutcomesAreKept: later requests do not change the outcome that a handler keeps, for
// any number of limits.
func TestOutcomesAreKept(t *testing.T) {
	for n := 1; n <= 3; n++ {
		var kept []*Outcome
		h := Middleware(newLimiter(t, limits(n)), nil)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			o, _ := FromContext(r.Context())
			kept = append(kept, o)
		}))
		for range 3 {
			get(h)
		}
		for i, o := range kept {
			if len(o.States) != n {
				t.Fatalf("%d limits: %d states", n, len(o.States))
			}
			for j, s := range o.States {
				if want := int64(10+j-i) - 1; s.Name != fmt.Sprint("limit", j) || s.Remaining != want {
					t.Errorf("%d limits, request %d: state %d is %+v, want %d remaining", n, i+1, j, s, want)
				}
			}
		}
	}
}

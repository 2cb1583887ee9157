package enforce

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestOverridesWhileOthersDecide changes and lists overrides and reloads the policies while callers
// decide. A decision has one of the numbers that were ever set.
func TestOverridesWhileOthersDecide(t *testing.T) {
	s, o := storedSetOf(t, weir.NewMemory())
	file := s.Version().File
	var operators sync.WaitGroup
	stop := whileTwoChoose(s, func(v *variation) bool {
		v.noteUse()
		n := v.Limits[0].Max
		if n != 1000 && (n < 2000 || n > 2100) {
			t.Errorf("a decision with max %d", n)
			return false
		}
		return true
	})
	for i, key := range []map[string]string{{"user": "ann"}, {"ip": "192.0.2.0/24"}} {
		operators.Go(func() {
			for n := range 100 {
				c := OverrideChange{
					StoredOverride: StoredOverride{Policy: "p", Key: key, Limit: "a", Max: int64(2000 + n), Reason: "r", Author: fmt.Sprint(i)},
					Over:           engine.AnyVersion,
				}
				if _, _, err := o.Put(context.Background(), c); err != nil {
					t.Error(err)
				}
				o.List("p")
				o.InForce()
				if n%10 == 0 {
					must.Do(t, s.Reload(file, nil))
				}
				if n%7 == 0 {
					if _, err := o.Delete(context.Background(), c); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	operators.Wait()
	stop()
}

// whileTwoChoose has two callers choose the numbers of a key under the policy p until stop, or until
// check returns false.
func whileTwoChoose(s *Set, check func(*variation) bool) (stop func()) {
	ended := make(chan struct{})
	var callers sync.WaitGroup
	for range 2 {
		callers.Go(func() {
			key := engine.K("192.0.2.7", "ann")
			for {
				select {
				case <-ended:
					return
				default:
				}
				rule, _ := s.Version().Rule("p")
				if !check(rule.choose(&key, 0, time.Time{})) {
					return
				}
			}
		})
	}
	return func() {
		close(ended)
		callers.Wait()
	}
}

// TestChangeLeavesNoGap changes an override, and reloads the policies, while callers decide. No
// decision has the number of the policy file in between.
func TestChangeLeavesNoGap(t *testing.T) {
	s, o := storedSetOf(t, weir.NewMemory())
	c := OverrideChange{
		StoredOverride: StoredOverride{Policy: "p", Key: map[string]string{"user": "ann"}, Limit: "a", Max: 2000, Reason: "r", Author: "a"},
		Over:           engine.AnyVersion,
	}
	put := func() {
		if _, _, err := o.Put(context.Background(), c); err != nil {
			t.Error(err)
		}
	}
	put()
	stop := whileTwoChoose(s, func(v *variation) bool {
		n := v.Limits[0].Max
		if n < 2000 {
			t.Errorf("a decision has max %d, that of the file", n)
		}
		return n >= 2000
	})
	for i := range 2000 {
		c.Max++
		put()
		if i%100 == 0 {
			must.Do(t, s.Reload(s.Version().File, nil))
		}
	}
	stop()
}

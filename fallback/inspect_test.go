package fallback_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// TestInspectIsOfTheStore: in every mode a key is inspected in the store, and while that is out the
// call fails. It changes no status, and probes nothing.
func TestInspectIsOfTheStore(t *testing.T) {
	for _, mode := range modes {
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, ten, mode, fallback.FailureThreshold(2))
			inspect := func() (int, error) {
				h, err := inspectOn(s.fallback, s.Compiled())
				return len(h), err
			}
			mustAllow(t, s.Limiter, weir.K("ann"))
			if n, err := inspect(); n != 2 || err != nil {
				t.Errorf("%v: got %d histories, %v; want 2", mode, n, err)
			}
			s.Break(weirtest.Silent())
			began := time.Now()
			if n, err := inspect(); n != 0 || !errors.Is(err, weir.ErrUnavailable) || time.Since(began) != time.Second {
				t.Errorf("%v, silent: got %d histories, %v after %v; want an outage after 1s", mode, n, err, time.Since(began))
			}
			s.want(up)
			assert.Equal(t, s.fallback.Status().Failures, 0, "failures")
			s.fail(2)
			s.want(down)
			calls := s.Calls()
			if n, err := inspect(); n != 0 || !errors.Is(err, weir.ErrUnavailable) {
				t.Errorf("%v, down: got %d histories, %v; want an outage", mode, n, err)
			}
			assert.Equal(t, s.Calls(), calls, "calls of the store")
		})
	}
}

// inspectOn inspects the key of ann.
func inspectOn(e engine.Engine, rules *engine.Compiled) (histories []engine.History, err error) {
	peek := engine.Call{Rules: rules, Key: weir.K("ann"), Op: engine.Peek, N: 1, Histories: &histories}
	calls := []engine.Call{peek}
	e.Do(ctx, calls)
	return histories, calls[0].Err
}

// TestInspectOfZeroEngines: an engine that decides nothing is an error.
func TestInspectOfZeroEngines(t *testing.T) {
	rules := newLimiter(t, ten).Compiled()
	for _, e := range []engine.Engine{new(fallback.Engine), new(weir.Memory), weirtest.NewFaulty(nil)} {
		if h, err := inspectOn(e, rules); h != nil || !errors.Is(err, weir.ErrInput) {
			t.Errorf("%T: got %v, %v; want bad input", e, h, err)
		}
	}
}

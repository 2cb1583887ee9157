package fallback_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirtest"
)

// captureDefault returns what slog.Default logs during the test, with the level first.
func captureDefault(t *testing.T) *bytes.Buffer {
	before, out := slog.Default(), new(bytes.Buffer)
	slog.SetDefault(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})))
	t.Cleanup(func() { slog.SetDefault(before) })
	return out
}

// TestOutagesAreLogged: the first call that the store does not decide is one line, and the first
// one that it decides again, whether the breaker opens or not. OnStoreState changes nothing.
func TestOutagesAreLogged(t *testing.T) {
	out := captureDefault(t)
	begin := "level=ERROR msg=\"weir: the store does not decide; calls are decided without it\" why=\"engine: the store is unavailable: weirtest: down\"\n"
	end := "level=INFO msg=\"weir: the store decides again\"\n"
	for name, c := range map[string]struct {
		fails int
		opts  []fallback.Option
		want  string
	}{
		"the breaker opens":   {20, []fallback.Option{fallback.OnStoreState(nil)}, begin + end},
		"it stays closed":     {4, nil, begin + end},
		"it never opens":      {30, []fallback.Option{fallback.FailureThreshold(0)}, begin + end},
		"with OnStoreState":   {20, []fallback.Option{fallback.OnStoreState(func(error) {})}, begin + end},
		"a discarding logger": {20, []fallback.Option{fallback.ErrorLog(slog.New(slog.DiscardHandler))}, ""},
		"no failure":          {0, nil, ""},
	} {
		for _, mode := range modes {
			synctest.Test(t, func(t *testing.T) {
				s := newWatched(t, ten, mode, c.opts...)
				s.Break(weirtest.Down())
				s.fail(c.fails)
				s.Restore()
				time.Sleep(time.Minute)
				s.Allow(ctx, weir.K("42"))
				synctest.Wait()
			})
			if got := strings.ReplaceAll(out.String(), weir.ErrUnavailable.Error(), "engine: the store is unavailable"); got != c.want {
				t.Errorf("%s, %v:\ngot  %swant %s", name, mode, got, c.want)
			}
			out.Reset()
		}
	}
}

// TestUnreadableKeysAreLogged: a fault of one key is at most one line in ten seconds, in every
// mode, and no outage.
func TestUnreadableKeysAreLogged(t *testing.T) {
	out := captureDefault(t)
	line := "level=ERROR msg=\"weir: the store cannot read the data of a key; its calls are decided without the store\" why=\"k holds foreign data\""
	for _, mode := range modes {
		synctest.Test(t, func(t *testing.T) {
			s := newWatched(t, ten, mode)
			s.Break(func(context.Context, func()) error { return foreignData{} })
			for range 31 {
				s.fail(1)
				time.Sleep(400 * time.Millisecond)
			}
			s.want(up)
		})
		assert.Equal(t, out.String(), line+"\n"+line+" not_logged=24\n", "%v", mode)
		out.Reset()
	}
}

// foreignData is the error of a key that another program wrote.
type foreignData struct{}

func (foreignData) Error() string { return "k holds foreign data" }

func (foreignData) Is(target error) bool {
	return target == weir.ErrUnreadable || target == weir.ErrUnavailable
}

// TestReturnIsNoticedWithoutCalls: a store that is back is up without a call, within the
// longest pause.
func TestReturnIsNoticedWithoutCalls(t *testing.T) {
	for name, fault := range map[string]weirtest.Fault{"down": weirtest.Down(), "silent": weirtest.Silent()} {
		for _, opts := range [][]fallback.Option{nil, {fallback.Timeout(0)}} {
			if name == "silent" && opts != nil {
				continue // its callers would wait for ever
			}
			synctest.Test(t, func(t *testing.T) {
				s := newWatched(t, ten, fallback.Deny, opts...)
				s.Break(fault)
				s.fail(5)
				time.Sleep(time.Hour)
				s.want(down)
				calls := s.Calls() - 5
				if hour := int64(time.Hour / time.Second); calls < hour/5 || calls > hour/2 {
					t.Errorf("%s: %d probes an hour, want one every 2.5 to 5 s", name, calls)
				}
				s.Restore()
				time.Sleep(5*time.Second + 50*time.Millisecond)
				s.want(up)
				before := s.Calls()
				time.Sleep(time.Hour)
				assert.Equal(t, s.Calls(), before, "calls of a store that is up")
			})
		}
	}
}

// wantGoroutines fails the test if there stay more goroutines than before. The runtime counts its
// own while they run cleanups of rules, at either time.
func wantGoroutines(t *testing.T, before int, when string) {
	t.Helper()
	for range 10_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
	}
	t.Errorf("%d goroutines %s, want at most %d", runtime.NumGoroutine(), when, before)
}

// TestProbesEndWithClose: no timer and no goroutine is left, also with a probe in flight.
func TestProbesEndWithClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t, ten, fallback.Deny, fallback.Timeout(time.Hour))
		goroutines := runtime.NumGoroutine()
		s.Break(weirtest.Down())
		s.fail(5)
		wantGoroutines(t, goroutines, "between two probes")
		s.Break(weirtest.Silent())
		time.Sleep(time.Minute) // a probe hangs
		before := s.Calls()
		s.fallback.Close()
		synctest.Wait()
		wantGoroutines(t, goroutines, "after Close")
		time.Sleep(time.Hour)
		assert.Equal(t, s.Calls(), before, "calls of the store after Close")
		s.want(down)
		s.Restore() // callers still probe
		mustAllow(t, s.Limiter, weir.K("42"))
		s.want(up)
		s.fallback.Close()
		new(fallback.Engine).Close()
	})
}

// TestProbePanics: a panic of the store in a probe ends neither the process nor the probes.
func TestProbePanics(t *testing.T) {
	out := captureDefault(t)
	synctest.Test(t, func(t *testing.T) {
		s := newWatched(t, ten, fallback.Deny)
		s.Break(weirtest.Down())
		s.fail(5)
		s.Break(func(context.Context, func()) error { panic("a fault of the store") })
		time.Sleep(time.Minute)
		synctest.Wait()
		if !strings.Contains(out.String(), "a probe of the store has panicked") {
			t.Errorf("the log has no line of the panic:\n%s", out)
		}
		s.want(down)
		s.Restore()
		time.Sleep(6 * time.Second)
		s.want(up)
	})
}

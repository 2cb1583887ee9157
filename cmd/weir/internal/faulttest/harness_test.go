package faulttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// doubling sends every tenth call twice, as a client does that retries calls without an
// answer.
type doubling struct {
	weirredis.Conn
	calls atomic.Int64
}

func (d *doubling) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	if d.calls.Add(1)%10 == 0 {
		if reply, err := d.Conn.Eval(ctx, s, keys, args); err != nil {
			return reply, err
		}
	}
	return d.Conn.Eval(ctx, s, keys, args)
}

// lying makes every tenth call and then returns an error that denies it.
type lying struct {
	weirredis.Conn
	calls atomic.Int64
}

func (l *lying) Eval(ctx context.Context, s *weirredis.Script, keys, args []string) (string, error) {
	reply, err := l.Conn.Eval(ctx, s, keys, args)
	if err == nil && l.calls.Add(1)%10 == 0 {
		return "", weirredis.ReplyError("OOM command not allowed")
	}
	return reply, err
}

// recorder is a test that records its errors and does not fail.
type recorder struct {
	testing.TB
	errors []string
}

func (l *recorder) Helper()                   {}
func (l *recorder) Error(args ...any)         { l.errors = append(l.errors, fmt.Sprint(args...)) }
func (l *recorder) Errorf(f string, a ...any) { l.errors = append(l.errors, fmt.Sprintf(f, a...)) }

// wants fails the real test if no recorded error contains the word.
func (l *recorder) wants(word string) {
	l.TB.Helper()
	if all := strings.Join(l.errors, "\n"); !strings.Contains(all, word) {
		l.TB.Errorf("got %q, want an error with %q", all, word)
	}
}

// TestHarnessFindsFaults injects wrong answers and lost data, which the harness must find.
func TestHarnessFindsFaults(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	conn := clients[0].open(t, at(server.Addr))
	random := rand.New(rand.NewPCG(1, 0))
	run := func(conn weirredis.Conn) (*rig, []call) {
		g := newRig(t, conn, tightAndAll(1_000_000, time.Hour))
		f := g.traffic(8, patience, random)
		f.flows(t)
		return g, f.end(t)
	}
	t.Run("counted twice", func(t *testing.T) {
		l := &recorder{TB: t}
		g, calls := run(&doubling{Conn: conn})
		g.settle(l, calls, nothingLost)
		l.wants("counted twice")
	})
	t.Run("counted against the answer", func(t *testing.T) {
		l := &recorder{TB: t}
		g, calls := run(&lying{Conn: conn})
		g.settle(l, calls, nothingLost)
		l.wants("against the answer")
		noErrors(l, calls)
		l.wants("want none")
	})
	t.Run("forgotten", func(t *testing.T) {
		l := &recorder{TB: t}
		g, calls := run(conn)
		server.Must(t, "FLUSHALL")
		g.settle(l, calls, nothingLost)
		l.wants("not recorded")
	})
	t.Run("a partial write", func(t *testing.T) {
		g, _ := run(conn)
		for _, key := range keysOf(t, server) {
			if strings.Contains(key, g.name) && strings.Contains(key, "all") {
				server.Must(t, "DEL", key)
			}
		}
		if err := g.agree(t); err == nil || !strings.Contains(err.Error(), "partial") {
			t.Errorf("one limit was emptied: got %v, want a partial write", err)
		}
	})
	t.Run("a window too full", func(t *testing.T) {
		l := &recorder{TB: t}
		g, calls := run(conn)
		g.limits[0].Max = 10
		g.audit(l, calls, 5)
		l.wants("at most 10 + 5 lost")
	})
	t.Run("too late, nothing, all well", func(t *testing.T) {
		l := &recorder{TB: t}
		inTime(l, []call{{to: grace + 2*time.Second, err: errors.New("no answer")}}, time.Second)
		l.wants("after 1s")
		someFailed(l, []call{{}})
		l.wants("none of 1 calls failed")
	})
}

package weirredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/weirredis"
)

// movingConn returns answers[i] to call i, and the last answer to all further calls. "" is a
// grant.
type movingConn struct {
	answers []string
	calls   int
}

func (c *movingConn) Eval(_ context.Context, _ *weirredis.Script, keys, _ []string) (string, error) {
	text := c.answers[min(c.calls, len(c.answers)-1)]
	if c.calls++; text == "lost" {
		return "", errors.New("lost")
	}
	if text != "" {
		return "", weirredis.ReplyError(text)
	}
	return weirredis.Grant(nine, 1), nil
}

const (
	tryAgain    = "TRYAGAIN Multiple keys request during rehashing of slot"
	clusterDown = "CLUSTERDOWN The cluster is down"
)

// TestOnlyTRYAGAINIsRetried: a call rejected with TRYAGAIN is retried until the slot has
// moved. No other error is retried.
func TestOnlyTRYAGAINIsRetried(t *testing.T) {
	for _, c := range []struct {
		answers []string
		calls   int
		text    string // in the error; "" = granted
		unknown bool
	}{
		{[]string{""}, 1, "", false},
		{[]string{tryAgain, ""}, 2, "", false},
		{[]string{tryAgain, tryAgain, tryAgain, tryAgain, ""}, 5, "", false},
		{[]string{tryAgain, "lost", ""}, 2, "lost", true},
		{[]string{tryAgain, clusterDown, ""}, 2, clusterDown, false},
		{[]string{clusterDown, ""}, 1, "CLUSTER INFO", false},
		{[]string{"LOADING Redis is loading the dataset in memory", ""}, 1, "LOADING", false},
		{[]string{"READONLY You can't write against a read only replica.", ""}, 1, "READONLY", false},
		{[]string{"MOVED 1 127.0.0.1:1", ""}, 1, "client that follows", false},
		{[]string{"lost", ""}, 1, "lost", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn := &movingConn{answers: c.answers}
			l := limiter(t, newEngine(t, conn), "moving", weir.AllOrNothing, perUser(5, time.Minute))
			d, err := l.Allow(ctx, weir.K("a"))
			assert.Equal(t, conn.calls, c.calls, "%q: calls", c.answers)
			if c.text == "" && (err != nil || !d.Allowed) {
				t.Errorf("%q: got %+v, %v, want a grant", c.answers, d, err)
			}
			if c.text != "" && (err == nil || !strings.Contains(err.Error(), c.text) || errors.Is(err, weir.ErrOutcomeUnknown) != c.unknown) {
				t.Errorf("%q: got %v, want an error with %q, with an unknown outcome %t", c.answers, err, c.text, c.unknown)
			}
		})
	}
}

// TestRetriesAreBounded: retries end after a second, or with the caller's context.
func TestRetriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := &movingConn{answers: []string{tryAgain}}
		l := limiter(t, newEngine(t, conn), "stuck", weir.AllOrNothing, perUser(5, time.Minute))
		began := time.Now()
		_, err := l.Allow(ctx, weir.K("a"))
		if took := time.Since(began); took < time.Second || took > 1100*time.Millisecond || conn.calls > 60 {
			t.Errorf("%d calls in %v, want about 35 in a second", conn.calls, took)
		}
		if !errors.Is(err, weir.ErrUnavailable) || errors.Is(err, weir.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "to another node") {
			t.Errorf("got %v, want ErrUnavailable and the reason", err)
		}

		own, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		began = time.Now()
		_, err = l.Allow(own, weir.K("a"))
		assert.Equal(t, time.Since(began), 100*time.Millisecond, "until the context ends")
		assert.Error(t, err, context.DeadlineExceeded, "TRYAGAIN")
		assert.Error(t, err, weir.ErrUnavailable)
	})
}

package rueidisconn_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

// conn returns a connection, which ends with the test.
func conn(t *testing.T, o rueidis.ClientOption) *rueidisconn.Conn {
	t.Helper()
	c := must.Get(rueidisconn.New(o))(t)
	t.Cleanup(c.Close)
	return c
}

func TestConformance(t *testing.T) {
	redistest.Conformance(t, conn(t, rueidis.ClientOption{InitAddress: []string{redistest.Shared(t).Addr}}), 2_000, 2)
}

func TestNewErrorNamesPlaceAndNextStep(t *testing.T) {
	s := redistest.Start(t)
	s.Stop()
	_, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{s.Addr}, Username: "ann", Password: "s3cret"})
	if err == nil || !strings.Contains(err.Error(), s.Addr) || !strings.Contains(err.Error(), "does it run") || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("got %v, want an error that names %s and the next step, and no password", err, s.Addr)
	}
}

// TestReturnsWithItsContext freezes the server: callers return at their deadlines, and at
// once when they are cancelled.
func TestReturnsWithItsContext(t *testing.T) {
	s := redistest.Start(t)
	c := conn(t, rueidis.ClientOption{InitAddress: []string{s.Addr}, ConnWriteTimeout: time.Hour})
	if c.Clustered() || c.String() != s.Addr {
		t.Errorf("got clustered=%v at %s, want a single server at %s", c.Clustered(), c, s.Addr)
	}
	s.Freeze(t)
	defer s.Thaw(t)
	hour, cancel := context.WithTimeout(context.Background(), time.Hour)
	time.AfterFunc(20*time.Millisecond, cancel)
	returned := make(chan error)
	go func() { // with the first call rueidis would wait for the deadline
		_, err := c.Eval(hour, &weirredis.Script{Text: "return ''"}, nil, nil)
		returned <- err
	}()
	select {
	case err := <-returned:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Canceled", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("a cancelled call does not return")
	}
	deadline, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if _, err := c.Eval(deadline, &weirredis.Script{Text: "return ''"}, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
}

// TestRejectedCallsHaveNoUnknownOutcome: an error reply proves that nothing was counted; a
// lost reply does not.
func TestRejectedCallsHaveNoUnknownOutcome(t *testing.T) {
	c := conn(t, rueidis.ClientOption{InitAddress: []string{redistest.Shared(t).Addr}})
	_, err := c.Eval(context.Background(), &weirredis.Script{Text: "return redis.error_reply('ERR no')"}, nil, nil)
	var rejected weirredis.ReplyError
	if !errors.As(err, &rejected) || !strings.Contains(string(rejected), "no") {
		t.Errorf("a script that fails: got %v, want a ReplyError", err)
	}
	c.Close()
	_, err = c.Eval(context.Background(), &weirredis.Script{Text: "return ''"}, nil, nil)
	var unsent weirredis.UnsentError
	if !errors.As(err, &unsent) {
		t.Errorf("on a closed client: got %v, want an UnsentError", err)
	}
}

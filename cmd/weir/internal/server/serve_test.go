package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestServeEndsWithAListener: when a listener fails, Serve ends with the reason, and so do its
// goroutines, though the caller's context lasts.
func TestServeEndsWithAListener(t *testing.T) {
	s, _ := newServer(t, nil)
	must.Do(t, s.Listen())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	s.main.socket.Close()
	select {
	case err := <-ended:
		if err == nil || !strings.Contains(err.Error(), "cannot accept connections") {
			t.Errorf("got %v, want an error about connections", err)
		}
	case <-time.After(patience): // it takes milliseconds
		t.Fatal("Serve does not end")
	}
}

package documents_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/fallback"
	"github.com/weirlimit/weir/internal/documents"
	"github.com/weirlimit/weir/internal/testkit/documenttest"
)

func TestMemory(t *testing.T) {
	documenttest.Run(t, func(*testing.T) (first, second engine.Documents) { return weir.NewMemory().Documents(), nil })
}

// TestWrappers: engines around another one have its documents.
func TestWrappers(t *testing.T) {
	documenttest.Run(t, func(t *testing.T) (first, second engine.Documents) {
		seen := weir.Observe(weir.NewMemory(), func(context.Context, *engine.Call, time.Duration) {})
		around := fallback.New(seen, fallback.Deny)
		t.Cleanup(around.Close)
		inner, err := documents.Of(seen)
		if err != nil {
			t.Fatal(err)
		}
		return around.Documents(), inner
	})
}

// TestWritesOfManyThatEnd: a write does not visit all documents, also if they have a time to live.
func TestWritesOfManyThatEnd(t *testing.T) {
	writes := func(ttl time.Duration) time.Duration {
		to, begin := weir.NewMemory().Documents(), time.Now()
		for i := range 10_000 {
			d := engine.Document{Name: strconv.Itoa(i), Text: "text", TTL: ttl}
			if _, err := to.Write(context.Background(), "notes", d); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(begin)
	}
	const most = 20 // visits of all documents make it more than 100
	var stay, end time.Duration
	for range 10 { // a busy machine may stop for some milliseconds
		if stay, end = writes(0), writes(time.Hour); end <= most*stay {
			return
		}
	}
	t.Errorf("10,000 documents took %v, and %v with a time to live", stay, end)
}

// bare is an engine without documents.
type bare struct{}

func (bare) Do(context.Context, []engine.Call) {}

func TestEngineWithoutDocuments(t *testing.T) {
	around := fallback.New(bare{}, fallback.Deny)
	defer around.Close()
	_, err := around.Documents().Read(context.Background(), "notes", 0)
	_, failed := around.Documents().Write(context.Background(), "notes", engine.Document{Name: "a"})
	for _, err := range []error{err, failed} {
		if !errors.Is(err, engine.ErrInput) {
			t.Errorf("got %v, want ErrInput", err)
		}
	}
}

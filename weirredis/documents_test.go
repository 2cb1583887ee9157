package weirredis_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/documenttest"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
)

// collections numbers the prefixes of documents, so that each test has its own.
var collections atomic.Int64

// TestDocuments: two engines, as in two processes, keep documents together, also in a Cluster.
func TestDocuments(t *testing.T) {
	suite := func(t *testing.T, conn func(t *testing.T) weirredis.Conn) {
		documenttest.Run(t, func(t *testing.T) (first, second engine.Documents) {
			prefix := weirredis.KeyPrefix(fmt.Sprintf("documents%d:", collections.Add(1)))
			return newEngine(t, conn(t), prefix).Documents(), newEngine(t, conn(t), prefix).Documents()
		})
	}
	t.Run("server", func(t *testing.T) {
		suite(t, func(t *testing.T) weirredis.Conn { return redisConn(t) })
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.StartCluster(t)
		suite(t, func(t *testing.T) weirredis.Conn { return c.Conn(t) })
	})
}

// TestDocumentsAfterLostChanges: a server that has lost its last changes, as after a failover, does
// not use their versions again. So a reader that has seen them gets the documents as they are now.
func TestDocumentsAfterLostChanges(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	write := func(name, text string) {
		t.Helper()
		d := engine.Document{Name: name, Text: text, Version: engine.AnyVersion}
		if _, err := e.Documents().Write(ctx, "notes", d); err != nil {
			t.Fatal(err)
		}
	}
	write("a", "kept")
	dump := s.Must(t, "DUMP", "weir3:{}notes")
	write("a", "lost")
	write("b", "lost")
	seen, err := e.Documents().Read(ctx, "notes", 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Must(t, "RESTORE", "weir3:{}notes", "0", dump, "REPLACE")
	write("c", "new")
	write("d", "new")
	now, err := e.Documents().Read(ctx, "notes", seen.Version)
	if err != nil || !now.Whole || len(now.Documents) != 3 || now.Version <= seen.Version {
		t.Errorf("got %+v, %v; want all of a, c and d, and a version above %d", now, err, seen.Version)
	}
}

// TestForeignDocuments: a key of something else is an error that names the key.
func TestForeignDocuments(t *testing.T) {
	s := redistest.Start(t)
	e := newEngine(t, s.Conn(t))
	for _, command := range [][]string{
		{"SET", "weir3:{}notes", "text"},
		{"HSET", "weir3:{}notes", "#", "2 1 1"},
	} {
		s.Must(t, "DEL", "weir3:{}notes")
		s.Must(t, command...)
		_, err := e.Documents().Read(ctx, "notes", 0)
		if !errors.Is(err, weirredis.ErrState) {
			t.Errorf("%q: got %v, want ErrState", command, err)
		}
		t.Log(err)
	}
}

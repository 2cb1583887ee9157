//go:build unix

package docsrun_test

import (
	"context"
	"fmt"
	"log"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/markdown"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/goredisconn"
)

// TestMigratingGoIsThisFile: the Go code of docs/migrating.md is that of this file.
func TestMigratingGoIsThisFile(t *testing.T) {
	const path = "cmd/weir/internal/docsrun/migrating_go_test.go"
	file := lines(read(t, filepath.FromSlash(path)))
	blocks := markdown.Texts(read(t, migratingPage), "go")
	if len(blocks) == 0 {
		t.Errorf("%s has no blocks of Go", migratingPage)
	}
	for _, block := range blocks {
		if !strings.Contains(file, lines(block)) {
			t.Errorf("%s does not run this block of %s:\n%s", path, migratingPage, block)
		}
	}
}

// lines returns a text without indentation.
func lines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line) + "\n")
	}
	return b.String()
}

// migratingStore returns the engine of the page on a real server.
func migratingStore(t *testing.T) engine.Engine {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, ReadTimeout: time.Minute}) // the machine may be busy
	t.Cleanup(func() { client.Close() })
	conn, err := goredisconn.New(client)
	if err != nil {
		t.Fatal(err)
	}

	store, err := weirredis.New(conn)
	if err != nil {
		log.Fatal(err)
	}

	return store
}

func TestMigratingFromTheHierarchicalScript(t *testing.T) {
	ctx, store := t.Context(), migratingStore(t)

	limiter, err := weir.New(weir.Policy{
		Name: "alerts",
		Limits: []weir.Limit{
			weir.PerMinute(100).Named("all"),
			weir.PerMinute(20, "category").Named("category"),
		},
	}, weir.WithEngine(store))
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Allow(ctx, weir.K("disk-full"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d) // such as: denied by limit "category": room again in 12s

	if d.String() != "allowed: 19 left" {
		t.Errorf("the first attempt is %v, want 19 left", d)
	}
}

func TestMigratingFromScripts(t *testing.T) {
	ctx, store := t.Context(), migratingStore(t)

	limiter, err := weir.New(weir.Policy{
		Name:   "search",
		Limits: []weir.Limit{weir.PerMinute(20, "ip")},
	}, weir.WithEngine(store))
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Allow(ctx, weir.K("192.0.2.7"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)

	compare(t, "Weir", attackLimiter(t, limiter))
}

func TestMigratingFromRedisRate(t *testing.T) {
	ctx, store := t.Context(), migratingStore(t)

	limiter, err := weir.New(weir.Policy{
		Name:   "search",
		Limits: []weir.Limit{weir.PerMinute(20, "user")},
	}, weir.WithEngine(store))
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Allow(ctx, weir.K("ann"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)

	compare(t, "Weir", attackLimiter(t, limiter))
}

func TestMigratingFromXTimeRate(t *testing.T) {
	ctx := context.Background()

	limiter, err := weir.New(weir.Policy{
		Name:   "search",
		Limits: []weir.Limit{weir.PerMinute(20, "user")},
	})
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.Allow(ctx, weir.K("ann"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Allowed)

	compare(t, "Weir", attackLimiter(t, limiter))
	limiter = newLimiter(t, weir.Policy{Name: "bucket", Limits: []weir.Limit{weir.Bucket(20, time.Minute, 20, "user")}})
	compare(t, "x/time/rate", attackLimiter(t, limiter)) // the same bucket
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

// report is the result of one process.
type report struct {
	Attempts int
	Grants   []grant
}

// grant is one granted unit. Times are microseconds since 1970.
type grant struct {
	Called   int64 // instant of the call, by this machine's clock
	Returned int64 // instant of the return
	Decided  int64 // Decision.At: the server's clock
}

// limiter returns the limit on the store. Processes that use the same names share it.
func limiter(o *options) (l *weir.Limiter, end func(), err error) {
	client, err := rueidis.ParseURL(o.store)
	if err != nil {
		return nil, nil, fmt.Errorf("the store's URL cannot be read; write redis://host:port")
	}
	conn, err := rueidisconn.New(client)
	if err != nil {
		return nil, nil, err
	}
	engine, err := weirredis.New(conn)
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	l, err = weir.New(weir.Policy{
		Name:   "shared",
		Limits: []weir.Limit{{Name: "run", Max: o.max, Window: o.window, By: []string{"run"}}},
	}, weir.WithEngine(engine))
	return l, conn.Close, err
}

// work waits for the start line, calls the limiter as fast as it can, and reports.
func work(ctx context.Context, o *options, in io.Reader, out io.Writer) error {
	l, end, err := limiter(o)
	if err != nil {
		return err
	}
	defer end()
	fmt.Fprintln(out, "ready")
	if _, err := bufio.NewReader(in).ReadString('\n'); err != nil {
		return fmt.Errorf("the first process has ended: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.length)
	defer cancel()
	var all report
	var mu sync.Mutex
	var callers sync.WaitGroup
	for range o.callers {
		callers.Go(func() {
			mine, failed := hammer(ctx, l, weir.K(o.worker))
			mu.Lock()
			defer mu.Unlock()
			all.Attempts += mine.Attempts
			all.Grants = append(all.Grants, mine.Grants...)
			if failed != nil {
				err = failed
			}
		})
	}
	callers.Wait()
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(all)
}

// hammer is one caller. It retries a millisecond after a denial, regardless of RetryAfter.
func hammer(ctx context.Context, l *weir.Limiter, key weir.Key) (r report, err error) {
	for ctx.Err() == nil {
		called := time.Now()
		d, err := l.Allow(context.WithoutCancel(ctx), key) // a call in flight must be reported
		if err != nil {
			return r, err
		}
		r.Attempts++
		if d.Allowed {
			r.Grants = append(r.Grants, grant{called.UnixMicro(), time.Now().UnixMicro(), d.At.UnixMicro()})
		} else {
			time.Sleep(time.Millisecond)
		}
	}
	return r, nil
}

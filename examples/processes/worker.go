package main

import (
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
	if _, err = engine.Check(context.Background()); err != nil {
		conn.Close()
		return nil, nil, err
	}
	l, err = weir.New(weir.Policy{
		Name:   "shared",
		Limits: []weir.Limit{weir.Per(o.max, o.window, "run")},
	}, weir.WithEngine(engine))
	return l, conn.Close, err
}

// work calls the limiter as fast as it can, and reports. A caller retries a millisecond
// after a denial, regardless of RetryAfter.
func work(o *options, out io.Writer) error {
	l, end, err := limiter(o)
	if err != nil {
		return err
	}
	defer end()
	var mu sync.Mutex // protects the following
	var all report
	var failed error
	attempt := func() (again bool) {
		called := time.Now()
		d, err := l.Allow(context.Background(), weir.K(o.worker))
		returned := time.Now()
		if err == nil && !d.Allowed {
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		switch all.Attempts++; {
		case err != nil:
			failed = err
		case d.Allowed:
			all.Grants = append(all.Grants, grant{called.UnixMicro(), returned.UnixMicro(), d.At.UnixMicro()})
		}
		return failed == nil
	}
	until := time.Now().Add(o.length)
	var callers sync.WaitGroup
	for range o.callers {
		callers.Go(func() {
			for time.Now().Before(until) && attempt() {
			}
		})
	}
	callers.Wait()
	if failed != nil {
		return failed
	}
	return json.NewEncoder(out).Encode(all)
}

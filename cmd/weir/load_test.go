package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/redistest"
)

// client calls a gate with its own key, and counts the answers.
type client struct {
	addr     string
	id       int
	statuses map[int]int
	conn     net.Conn
	in       *bufio.Reader
}

func newClient(addr string, id int) *client {
	return &client{addr: addr, id: id, statuses: map[int]int{}}
}

// connect opens a connection unless one is open.
func (c *client) connect() error {
	if c.conn != nil {
		return nil
	}
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		return err
	}
	c.conn, c.in = conn, bufio.NewReader(conn)
	return nil
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// attempt sends one request and reads its answer. keep keeps the connection open.
func (c *client) attempt(keep bool) error {
	if err := c.connect(); err != nil {
		return err
	}
	c.conn.SetDeadline(time.Now().Add(testTimeout))
	end := "\r\n"
	if !keep {
		end = "Connection: close\r\n\r\n"
	}
	if _, err := fmt.Fprintf(c.conn, "GET /gate/search?ip=%d HTTP/1.1\r\nHost: x\r\n%s", c.id, end); err != nil {
		return fmt.Errorf("a request was not accepted: %w", err)
	}
	r, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("a request was not answered: %w", err)
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return fmt.Errorf("an answer was cut off: %w", err)
	}
	c.statuses[r.StatusCode]++
	if r.Close {
		c.close()
	}
	return nil
}

// runClients runs n clients until each of them returns from run. It fails the test for
// every error, and returns the number of answers by status.
func runClients(t *testing.T, addr string, n int, run func(c *client) error) map[int]int {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	statuses := map[int]int{}
	for id := range n {
		all.Go(func() {
			c := newClient(addr, id)
			defer c.close()
			if err := run(c); err != nil {
				t.Errorf("client %d, after the answers %v: %v", id, c.statuses, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for status, n := range c.statuses {
				statuses[status] += n
			}
		})
	}
	all.Wait()
	return statuses
}

// SIGTERM under load loses no request of clients that leave once /readyz fails, as load
// balancers do.
func TestTerminateAnswersRequestsInFlight(t *testing.T) {
	const clients = 16
	p := startServe(t, "--linger", "2s")
	var answered atomic.Int64
	var left atomic.Bool
	done := make(chan map[int]int)
	go func() {
		done <- runClients(t, p.addr, clients, func(c *client) error {
			for !left.Load() {
				if err := c.attempt(c.id%2 == 0); err != nil {
					return err
				}
				answered.Add(1)
			}
			return nil
		})
	}()
	await(t, "answers", func() bool { return answered.Load() >= 100*clients })
	p.terminate(t)
	p.awaitNotReady(t)
	left.Store(true)
	statuses := <-done
	p.ended(t)
	if statuses[204] == 0 || statuses[204]+statuses[429] < 100*clients {
		t.Errorf("answers by status: %v, want at least %d, some of them 204", statuses, 100*clients)
	}
	t.Logf("answers by status: %v", statuses)
}

// awaitNotReady waits until /readyz fails.
func (p *process) awaitNotReady(t *testing.T) {
	t.Helper()
	await(t, "/readyz fails", func() bool {
		status, _ := getPage(t, p.addr, "/readyz")
		return status == 503
	})
}

// On every listener each attempt is answered while weir lingers.
func TestTerminateAnswersOnEveryListener(t *testing.T) {
	const clients = 3 // of each front
	f := openFronts(t, "--policies", writeOutagePolicies(t), "--linger", "2s")
	var answered atomic.Int64
	var left atomic.Bool
	var all sync.WaitGroup
	for _, front := range frontNames {
		for range clients {
			all.Go(func() {
				for !left.Load() {
					if got := f.attempt(front, "denies"); got != passes {
						t.Errorf("%s says %s", front, got)
						return
					}
					answered.Add(1)
				}
			})
		}
	}
	await(t, "answers", func() bool { return answered.Load() >= 1000 })
	f.terminate(t)
	f.awaitNotReady(t)
	before := answered.Load()
	await(t, "answers while weir lingers", func() bool { return answered.Load() >= before+100 })
	left.Store(true)
	all.Wait()
	f.ended(t)
	if n := answered.Load(); n < 1100 {
		t.Errorf("%d answers, want 1,100 and more", n)
	}
}

// With twice as many requests as it can answer, the server answers each request that it
// accepts, and it works as before after the load.
func TestServesAtTwiceItsCapacity(t *testing.T) {
	needs.Time(t)
	p := startServe(t)
	measure := func(clients int, gap time.Duration) (rate float64, statuses map[int]int) {
		begun := time.Now()
		end := begun.Add(time.Second / 2)
		statuses = runClients(t, p.addr, clients, func(c *client) error {
			next := begun
			for time.Now().Before(end) {
				if err := c.attempt(true); err != nil {
					return err
				}
				next = next.Add(gap) // a late client sends at once
				time.Sleep(time.Until(next))
			}
			return nil
		})
		total := 0
		for _, n := range statuses {
			total += n
		}
		return float64(total) / time.Since(begun).Seconds(), statuses
	}
	capacity, _ := measure(16, 0)
	const many = 400
	gap := time.Duration(many / (2 * capacity) * float64(time.Second))
	rate, statuses := measure(many, gap)
	for status := range statuses {
		if status != 204 && status != 429 && status != 503 {
			t.Errorf("answers by status: %v", statuses)
		}
	}
	t.Logf("%.0f answers a second with 16 clients; %.0f with %d clients at twice that rate", capacity, rate, many)
	after := newClient(p.addr, many)
	defer after.close()
	if err := after.attempt(false); err != nil || after.statuses[204] != 1 {
		t.Errorf("after the load: %v, %v", err, after.statuses)
	}
}

// At --max-memory new keys get 503, and known keys are still denied (R13).
func TestMaxMemoryRejectsNewKeys(t *testing.T) {
	needs.Time(t)
	p := startServe(t, "--max-memory", "1MiB")
	known := newClient(p.addr, 0)
	for range 5 {
		if err := known.attempt(false); err != nil { // 5 a minute, used up
			t.Fatal(err)
		}
	}
	flood := newClient(p.addr, 0)
	defer flood.close()
	for flood.id < 50_000 && flood.statuses[503] == 0 {
		flood.id++
		if err := flood.attempt(true); err != nil {
			t.Fatal(err)
		}
	}
	if err := known.attempt(false); err != nil || flood.statuses[503] == 0 || known.statuses[429] != 1 {
		t.Errorf("50,000 keys in 1 MiB: %d answers of 503; the known key got %v, %v, want 5 × 204 and a 429", flood.statuses[503], known.statuses, err)
	}
}

// With a slow store, requests above --max-in-flight get 503 and all others an answer.
func TestMaxInFlightRejectsRequests(t *testing.T) {
	const room = 8
	store := redistest.NewProxy(t, redistest.Start(t).Addr)
	p := startServe(t, "--store", "redis://"+store.Addr, "--max-in-flight", fmt.Sprint(room))
	store.Latency(5*time.Millisecond, 5*time.Millisecond)
	statuses := runClients(t, p.addr, 2*room, func(c *client) error {
		for c.statuses[204]+c.statuses[429] < 5 {
			if err := c.attempt(true); err != nil {
				return err
			}
		}
		return nil
	})
	if statuses[503] == 0 || statuses[204] == 0 {
		t.Errorf("answers by status: %v, want 204 and, for want of room, 503", statuses)
	}
}

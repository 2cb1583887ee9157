package gcra

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/redistest"
	"github.com/weirlimit/weir/weirredis"
	"github.com/weirlimit/weir/weirredis/rueidisconn"
)

func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }

func newTestStore(t *testing.T, s *redistest.Server) *Store {
	t.Helper()
	conn, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{s.Addr}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	s.Must(t, "FLUSHALL")
	store := NewStore(conn)
	store.timeout, store.probeWait = 30*time.Second, 30*time.Second // on a crowded machine; what tests of outages need they set
	return store
}

// TestStoreDecidesAsTheTable compares, for random attempts on the server's clock,
// what the script wrote with what the arithmetic in Go makes of the same instants.
func TestStoreDecidesAsTheTable(t *testing.T) {
	server := redistest.Shared(t)
	store := newTestStore(t, server)
	ctx := context.Background()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	limited, granted := 0, 0
	for i := range 3000 {
		l := Limit{Burst: r.Int64N(6), Count: 1 + r.Int64N(1000), Period: time.Duration(1 + r.Int64N(int64(time.Second)))}
		key := fmt.Sprint("short ", r.IntN(20))
		if i%3 == 0 {
			l.Period = time.Duration(1 + r.Int64N(int64(Longest)/8))
			key = fmt.Sprint("long ", r.IntN(500))
		}
		q, err := l.rate()
		if err != nil {
			t.Fatal(err)
		}
		n := r.Int64N(q.limit + 2)
		now, arrival, err := store.eval(ctx, keyPrefix+key, &q, n)
		if err != nil {
			t.Fatal(err)
		}
		a, next := q.attempt(arrival, now, n)
		stored := server.Must(t, "GET", keyPrefix+key)
		if a.Limited {
			limited++
		}
		if !a.Limited && n > 0 {
			granted++
			if stored != "" && stored != strconv.FormatInt(next, 10) { // "" = it has expired already
				t.Fatalf("seed %d, step %d: %+v, %d units at %d with %d stored: now %s is stored, want %d", seed, i, l, n, now, arrival, stored, next)
			}
			if ttl, _ := strconv.ParseInt(server.Must(t, "PTTL", keyPrefix+key), 10, 64); ttl < 0 && ttl != -2 {
				t.Fatalf("seed %d, step %d: the key never expires", seed, i)
			}
		} else if stored != "" && stored != strconv.FormatInt(arrival, 10) && arrival > now {
			t.Fatalf("seed %d, step %d: %+v, %d units at %d: %s is stored though nothing was granted, want %d", seed, i, l, n, now, stored, arrival)
		}
	}
	if limited < 300 || granted < 300 {
		t.Errorf("seed %d: only %d limited and %d granted; the test does not try both", seed, limited, granted)
	}
}

func TestStoreAnswers(t *testing.T) {
	store := newTestStore(t, redistest.Shared(t))
	ctx := context.Background()
	l := Limit{Burst: 4, Count: 1, Period: 1000 * time.Hour}
	ask := func(n int64, limited bool, remaining int64) Answer {
		t.Helper()
		a, err := store.Throttle(ctx, "answers\x00{}", l, n)
		if err != nil || a.Limited != limited || a.Remaining != remaining || a.Limit != 5 {
			t.Errorf("%d units: %+v, %v; want limited %v, remaining %d", n, a, err, limited, remaining)
		}
		return a
	}
	if a := ask(6, true, 5); a.RetryAfter != weir.Never {
		t.Errorf("more than ever fit: wait %v, want Never", a.RetryAfter)
	}
	ask(0, false, 5)
	ask(3, false, 2)
	if a := ask(3, true, 2); a.RetryAfter <= 999*time.Hour || a.RetryAfter > 1000*time.Hour {
		t.Errorf("wait %v, want nearly 1000h", a.RetryAfter)
	}
	ask(weir.MaxUnits, true, 2)
	if a := ask(2, false, 0); a.ResetAfter <= 4999*time.Hour || a.ResetAfter > 5000*time.Hour {
		t.Errorf("reset after %v, want nearly 5000h", a.ResetAfter)
	}
}

// TestStoreKeepsForeignData: a key that something else uses is left as it is.
func TestStoreKeepsForeignData(t *testing.T) {
	server := redistest.Shared(t)
	store := newTestStore(t, server)
	for i, value := range []string{"hello", "12", "99999999999999999999", "-1000000000000", "1.5e18"} {
		key := fmt.Sprint("foreign", i)
		server.Must(t, "SET", keyPrefix+key, value)
		_, err := store.Throttle(context.Background(), key, perSecond, 1)
		if !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("%q: %v; want ErrUnavailable and what to do", value, err)
		}
		if is := server.Must(t, "GET", keyPrefix+key); is != value {
			t.Errorf("%q was overwritten with %q", value, is)
		}
	}
}

// TestStoreOutage: a Redis that is gone is an error, soon without asking, and is
// found when it is back.
func TestStoreOutage(t *testing.T) {
	server := redistest.Start(t)
	store := newTestStore(t, server)
	ctx := context.Background()
	if _, err := store.Throttle(ctx, "k", perSecond, 1); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	asked := 0
	for range 100 {
		_, err := store.Throttle(ctx, "k", perSecond, 1)
		if !errors.Is(err, weir.ErrUnavailable) && !errors.Is(err, weir.ErrUnknownFate) {
			t.Fatalf("with the server gone: %v", err)
		}
		if !errors.Is(err, errDown) {
			asked++
		}
	}
	if asked < mostStrikes {
		t.Errorf("asked %d times before giving up, want at least %d", asked, mostStrikes)
	}
	if _, err := store.breaker.admit(); err == nil {
		store.breaker.note(errors.New("still gone"))
	}
	if _, err := store.Throttle(ctx, "k", perSecond, 1); !errors.Is(err, errDown) {
		t.Errorf("after many failures: %v, want it not to be asked", err)
	}
	server.Restart(t)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		_, err := store.Throttle(ctx, "k", perSecond, 1)
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not found again: %v", err)
		}
	}
}

// TestStoreProbesWithoutItsCaller: while Redis is taken to be gone nobody waits for it,
// not even whose attempt finds out that it is back.
func TestStoreProbesWithoutItsCaller(t *testing.T) {
	server := redistest.Start(t)
	store := newTestStore(t, server)
	ctx := context.Background()
	if _, err := store.Throttle(ctx, "k", perSecond, 1); err != nil {
		t.Fatal(err)
	}
	store.probeWait = time.Microsecond
	for range mostStrikes {
		store.breaker.note(errors.New("gone"))
	}
	store.breaker.probeAt.Store(0)
	server.Freeze(t)
	_, err := store.Throttle(ctx, "k", perSecond, 1) // would wait 30 s and then be no answer
	if !errors.Is(err, weir.ErrUnknownFate) || !errors.Is(err, errLate) {
		t.Errorf("the probe of a frozen server: %v, want ErrUnknownFate, and that it is not waited for", err)
	}
	server.Thaw(t)
	for deadline := time.Now().Add(30 * time.Second); store.breaker.strikes.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the probe told nobody that the server is back")
		}
	}
}

// stuck is a Conn that never answers.
type stuck struct{}

func (stuck) Eval(ctx context.Context, _ *weirredis.Script, _, _ []string) (string, error) {
	<-ctx.Done()
	return "", ctx.Err()
}

func TestStoreKeepsItsBudget(t *testing.T) {
	store := NewStore(stuck{})
	_, err := store.Throttle(context.Background(), "k", perSecond, 1)
	var e *weirredis.StoreError
	if !errors.As(err, &e) || !e.MayHaveCounted || !errors.Is(err, weir.ErrUnknownFate) {
		t.Errorf("%v; want ErrUnknownFate", err)
	}
	if _, err = store.Throttle(context.Background(), "k", perSecond, 0); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("a look: %v; want ErrUnavailable", err)
	}
}

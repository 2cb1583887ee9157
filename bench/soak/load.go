package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/weirlimit/weir/bench/internal/weirserve"
)

const (
	users  = 5000 // keys of each policy
	worker = 4    // workers of each kind
	stay   = 500  // calls on a connection, which is then replaced
)

// load is the set of callers.
type load struct {
	s     *weirserve.Server
	every time.Duration // between two calls of a worker
	calls atomic.Int64
	all   sync.WaitGroup

	mu    sync.Mutex // protects the following
	wrong []string
}

// caller makes calls one after the other on its connections.
type caller interface {
	call(ctx context.Context, user string) error
	close()
}

// startLoad starts the callers, which call until ctx is done.
func startLoad(ctx context.Context, s *weirserve.Server, rate int) *load {
	kinds := []func(*weirserve.Server) (caller, error){newPoster, newGate, newProxy, newRedis}
	l := &load{s: s, every: time.Second * time.Duration(len(kinds)*worker) / time.Duration(rate)}
	for _, kind := range kinds {
		for range worker {
			l.all.Go(func() { l.run(ctx, kind) })
		}
	}
	return l
}

// wait waits for the end and returns the number of calls and the first faults.
func (l *load) wait() (calls int64, wrong []string) {
	l.all.Wait()
	return l.calls.Load(), l.wrong
}

func (l *load) run(ctx context.Context, kind func(*weirserve.Server) (caller, error)) {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for ctx.Err() == nil {
		c, err := kind(l.s)
		if err != nil {
			l.blame(err)
			return
		}
		for range stay {
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
			if ctx.Err() != nil {
				break
			}
			if err := c.call(ctx, fmt.Sprint("user-", rand.IntN(users))); err != nil && ctx.Err() == nil {
				l.blame(err)
				break
			}
			l.calls.Add(1)
		}
		c.close()
	}
}

// blame records the first few faults.
func (l *load) blame(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) < 20 {
		l.wrong = append(l.wrong, err.Error())
	}
}

// web calls over HTTP.
type web struct {
	client http.Client
	ask    func(user string) (*http.Request, error)
	may    string // allowed statuses
}

var (
	names = []string{"users", "few", "both"}
	paths = []string{"/v1/check", "/v1/check", "/v1/check", "/v1/peek", "/v1/record", "/v1/reserve"}
)

func newPoster(s *weirserve.Server) (caller, error) {
	return &web{client: http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}, may: "200 ", ask: func(user string) (*http.Request, error) {
		body := fmt.Sprintf(`{"policy":%q,"key":{"user":%q}}`, names[rand.IntN(len(names))], user)
		return http.NewRequest("POST", "http://"+s.HTTP+paths[rand.IntN(len(paths))], strings.NewReader(body))
	}}, nil
}

func newGate(s *weirserve.Server) (caller, error) {
	return &web{client: http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}, may: "204 429 ", ask: func(user string) (*http.Request, error) {
		return http.NewRequest("GET", "http://"+s.HTTP+"/gate/"+names[rand.IntN(len(names))]+"?user="+user, nil)
	}}, nil
}

func (w *web) call(ctx context.Context, user string) error {
	r, err := w.ask(user)
	if err != nil {
		return err
	}
	res, err := w.client.Do(r.WithContext(ctx))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && !strings.Contains(w.may, fmt.Sprint(res.StatusCode, " ")) {
		err = fmt.Errorf("%s %s: %s: %s", r.Method, r.URL, res.Status, body)
	}
	return err
}

func (w *web) close() { w.client.CloseIdleConnections() }

// proxy calls as Envoy does: a rule, or a policy by its name.
type proxy struct{ conn *grpc.ClientConn }

func newProxy(s *weirserve.Server) (caller, error) {
	conn, err := grpc.NewClient(s.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	return &proxy{conn}, err
}

func (p *proxy) call(ctx context.Context, user string) error {
	domain := []string{"soak", "users", "few"}[rand.IntN(3)]
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := pb.NewRateLimitServiceClient(p.conn).ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: domain, Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}}})
	return err
}

func (p *proxy) close() { p.conn.Close() }

// redisClient calls as Redis clients do, in pipelines of sixteen.
type redisClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func newRedis(s *weirserve.Server) (caller, error) {
	conn, err := net.Dial("tcp", s.RESP)
	if err != nil {
		return nil, err
	}
	return &redisClient{conn, bufio.NewReader(conn)}, nil
}

func (c *redisClient) call(_ context.Context, user string) error {
	c.conn.SetDeadline(time.Now().Add(10 * time.Second))
	var out bytes.Buffer
	for range 16 {
		fmt.Fprintf(&out, "WEIR.CHECK %s user=%s\r\n", names[rand.IntN(len(names))], user)
	}
	if _, err := c.conn.Write(out.Bytes()); err != nil {
		return err
	}
	for range 16 {
		if err := c.skip(); err != nil {
			return err
		}
	}
	return nil
}

// skip reads one answer, an array of numbers and texts.
func (c *redisClient) skip() error {
	head, err := c.in.ReadString('\n')
	if err != nil || head[0] != '*' {
		return fmt.Errorf("answer %q: %v", head, err)
	}
	var n int
	if _, err := fmt.Sscanf(head, "*%d", &n); err != nil {
		return err
	}
	for range n {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return err
		}
		if line[0] == '$' { // the text is the next line
			if _, err := c.in.ReadString('\n'); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *redisClient) close() { c.conn.Close() }

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

// front is one way to request a unit of the audited policy.
type front struct {
	name string
	dial func(t *target) (caller, error)
}

// caller is one connection of a front.
type caller interface {
	check(ctx context.Context, user string) (allowed bool, err error)
	close()
}

var fronts = []front{{"HTTP", dialHTTP}, {"gate", dialGate}, {"gRPC", dialGRPC}, {"RESP", dialRESP}}

// source dials from one address of this machine.
func source(address string) *net.Dialer {
	return &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
}

// web calls over HTTP on one connection.
type web struct {
	client  http.Client
	request func(user string) (*http.Request, error)
	allowed func(status int, body string) (allowed, ok bool)
}

func newWeb(request func(user string) (*http.Request, error), allowed func(int, string) (bool, bool)) *web {
	transport := &http.Transport{DialContext: source(honestSource).DialContext, MaxIdleConnsPerHost: 1}
	return &web{http.Client{Transport: transport}, request, allowed}
}

func dialHTTP(t *target) (caller, error) {
	return newWeb(func(user string) (*http.Request, error) {
		return bearer(t, "http://"+t.HTTP+"/v1/check", fmt.Sprintf(`{"policy":%q,"key":{"user":%q}}`, audited, user))
	}, func(status int, body string) (allowed, ok bool) {
		return strings.Contains(body, `"allowed":true`), status == http.StatusOK
	}), nil
}

// bearer returns a POST with the honest token.
func bearer(t *target, url, body string) (*http.Request, error) {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+t.Honest)
	}
	return r, err
}

func dialGate(t *target) (caller, error) {
	return newWeb(func(user string) (*http.Request, error) {
		r, err := http.NewRequest(http.MethodGet, "http://"+t.HTTP+"/gate/"+audited+"?user="+user, nil)
		if err == nil {
			r.Header.Set("Weir-Gate-Secret", t.Gate)
		}
		return r, err
	}, func(status int, _ string) (allowed, ok bool) {
		return status == http.StatusNoContent, status == http.StatusNoContent || status == http.StatusTooManyRequests
	}), nil
}

func (w *web) check(ctx context.Context, user string) (bool, error) {
	r, err := w.request(user)
	if err != nil {
		return false, err
	}
	res, err := w.client.Do(r.WithContext(ctx))
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return false, err
	}
	allowed, ok := w.allowed(res.StatusCode, string(body))
	if !ok {
		return false, fmt.Errorf("%s: %s", res.Status, body)
	}
	return allowed, nil
}

func (w *web) close() { w.client.CloseIdleConnections() }

// proxy calls as Envoy does.
type proxy struct {
	conn  *grpc.ClientConn
	token string
}

func dialGRPC(t *target) (caller, error) {
	conn, err := dialProxy(t, honestSource)
	return &proxy{conn, t.Honest}, err
}

// dialProxy makes a gRPC client that connects from one address.
func dialProxy(t *target, from string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:"+t.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return source(from).DialContext(ctx, "tcp", address)
		}))
}

func (p *proxy) check(ctx context.Context, user string) (bool, error) {
	a, err := p.ask(ctx, &pb.RateLimitRequest{Domain: audited, Descriptors: []*common.RateLimitDescriptor{
		{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}}})
	return a.GetOverallCode() == pb.RateLimitResponse_OK, err
}

func (p *proxy) ask(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+p.token)
	return pb.NewRateLimitServiceClient(p.conn).ShouldRateLimit(ctx, r)
}

func (p *proxy) close() { p.conn.Close() }

// redisClient calls as Redis clients do.
type redisClient struct {
	conn net.Conn
	in   *bufio.Reader
}

func dialRESP(t *target) (caller, error) { return dialRedis(t, honestSource, t.Honest) }

// dialRedis connects and authenticates.
func dialRedis(t *target, from, token string) (*redisClient, error) {
	conn, err := source(from).Dial("tcp", t.RESP)
	if err != nil {
		return nil, err
	}
	c := &redisClient{conn, bufio.NewReader(conn)}
	conn.SetDeadline(time.Now().Add(patience))
	if _, err = c.command("AUTH " + token); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *redisClient) check(ctx context.Context, user string) (bool, error) {
	deadline, _ := ctx.Deadline()
	c.conn.SetDeadline(deadline)
	first, err := c.command("WEIR.CHECK " + audited + " user=" + user)
	return first == ":1", err
}

// command sends one command and returns the first line of a flat reply. Of an array it
// returns that of the first element.
func (c *redisClient) command(line string) (first string, err error) {
	if _, err := io.WriteString(c.conn, line+"\r\n"); err != nil {
		return "", err
	}
	head, err := c.line()
	if err != nil {
		return "", err
	}
	if head[0] == '-' {
		return "", errors.New(head)
	}
	var n int
	if _, err := fmt.Sscanf(head, "*%d", &n); err != nil {
		return head, nil
	}
	for i := range n {
		element, err := c.line()
		if err != nil {
			return "", err
		}
		if i == 0 {
			first = element
		}
		if element[0] == '$' { // the text is the next line
			if _, err := c.line(); err != nil {
				return "", err
			}
		}
	}
	return first, nil
}

// line reads one line. A text may be empty, all other lines have a type.
func (c *redisClient) line() (string, error) {
	text, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	if text = strings.TrimRight(text, "\r\n"); text == "" {
		text = " "
	}
	return text, nil
}

func (c *redisClient) close() { c.conn.Close() }

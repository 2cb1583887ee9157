package otlp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/observe"
)

// Config configures a Tracer. Only Endpoint is required.
type Config struct {
	Endpoint string            // of the collector: http://host:4318, to which /v1/traces is added, or a URL with a path
	Headers  map[string]string // sent with each batch, such as a token
	Service  string            // service.name; default: weir
	Version  string            // service.version
	Ratio    float64           // share of the calls without a trace that begin one, 0 … 1
	Log      *slog.Logger      // default: no log
}

const (
	maxQueue       = 8192             // spans in the queue
	maxBatch       = 512              // spans sent at once
	maxDelay       = time.Second      // of a span that waits for a batch
	sendTimeout    = 10 * time.Second // for one answer of the collector
	maxAttempts    = 4
	firstRetryWait = 250 * time.Millisecond // doubles with each attempt
)

// Tracer sends spans on its goroutine until Close. It is safe for concurrent use.
type Tracer struct {
	config        Config
	target        string
	client        http.Client
	queue         chan span
	stop          context.CancelFunc // cancels the request in progress
	stopping      context.Context
	closing       chan struct{}
	once          sync.Once
	done          chan struct{}
	sent, dropped atomic.Int64
	losses        observe.Log // at most one line a minute
}

// span is a decision with its place in a trace.
type span struct {
	observe.Span
	parent parentContext
	id     [8]byte
	root   bool // it begins its trace
}

// New starts a tracer.
func New(c Config) (*Tracer, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("not the URL of a collector; write http://host:4318") // not repeated: it may hold a password
	}
	if !(c.Ratio >= 0 && c.Ratio <= 1) {
		return nil, fmt.Errorf("the share of calls that begin a trace must be 0 to 1, not %v", c.Ratio)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	c.Service = cmp.Or(c.Service, "weir")
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	t := &Tracer{config: c, target: u.String(), client: http.Client{Timeout: sendTimeout},
		losses: observe.Log{To: c.Log, Max: 1, Period: time.Minute},
		queue:  make(chan span, maxQueue), closing: make(chan struct{}), done: make(chan struct{})}
	t.stopping, t.stop = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

// Span queues a span. traceparent is the caller's field, or "". A span is queued if the
// caller's trace is sampled; without a trace, with the probability Ratio.
func (t *Tracer) Span(traceparent string, s observe.Span) {
	out := span{Span: s}
	p, ok := parseTraceparent(traceparent)
	switch {
	case ok && !p.sampled, !ok && rand.Float64() >= t.config.Ratio:
		return
	case ok:
		out.parent = p
	default:
		out.root = true
		randomID(out.parent.trace[:])
	}
	randomID(out.id[:])
	select {
	case t.queue <- out:
	default:
		t.dropped.Add(1)
	}
}

// Sent returns the number of spans that the collector accepted.
func (t *Tracer) Sent() int64 { return t.sent.Load() }

// Dropped returns the number of lost spans.
func (t *Tracer) Dropped() int64 { return t.dropped.Load() }

// Close sends the queued spans. If ctx ends first it returns an error, and they are lost.
// Later spans are not sent.
func (t *Tracer) Close(ctx context.Context) error {
	t.once.Do(func() { close(t.closing) })
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		t.stop()
		<-t.done
		return errors.New("otlp: the collector did not accept the last spans in time")
	}
}

// run sends batches until Close.
func (t *Tracer) run() {
	defer close(t.done)
	defer t.stop()
	for {
		spans, last := t.gather()
		if len(spans) > 0 {
			t.sendWithRetries(spans)
		}
		if last {
			return
		}
	}
}

// gather waits for a batch. last reports that the tracer is closing and the queue empty.
func (t *Tracer) gather() (spans []span, last bool) {
	timer := time.NewTimer(maxDelay)
	defer timer.Stop()
	for len(spans) < maxBatch {
		select {
		case s := <-t.queue:
			spans = append(spans, s)
		case <-timer.C:
			return spans, false
		case <-t.closing:
			select {
			case s := <-t.queue:
				spans = append(spans, s)
			default:
				return spans, true
			}
		}
	}
	return spans, false
}

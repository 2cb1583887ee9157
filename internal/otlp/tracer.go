package otlp

import (
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

// Config says where spans go, and which. Only Endpoint is required.
type Config struct {
	Endpoint string            // of the collector: http://host:4318, to which /v1/traces is added, or a URL with a path of its own
	Headers  map[string]string // sent along, such as a token
	Service  string            // service.name; default: weir
	Version  string            // service.version
	Ratio    float64           // of the calls that come without a trace, the share that begins one, 0 … 1
	Log      *slog.Logger      // default: no log
}

const (
	queued    = 8192             // spans that wait, at most
	batch     = 512              // spans sent at once, at most
	pause     = time.Second      // the longest that a span waits for others
	patience  = 10 * time.Second // for one answer of the collector
	tries     = 4
	firstWait = 250 * time.Millisecond // between two tries, then twice as long each time
)

// Tracer sends spans from a goroutine of its own, until Close. It is safe for
// concurrent use.
type Tracer struct {
	config        Config
	target        string
	client        http.Client
	queue         chan span
	stop          context.CancelFunc // gives up what is being sent
	stopping      context.Context
	closing       chan struct{}
	once          sync.Once
	done          chan struct{}
	sent, dropped atomic.Int64
	complained    time.Time // the last line of the log; run's alone
}

// span is a decision, and what it is part of.
type span struct {
	observe.Span
	parent parent
	id     [8]byte
	root   bool // there is no parent but itself
}

// New returns a tracer that is at work.
func New(c Config) (*Tracer, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, errors.New("it is no URL of a collector; write http://host:4318") // not repeated: it may hold a password
	}
	if !(c.Ratio >= 0 && c.Ratio <= 1) {
		return nil, fmt.Errorf("the share of calls that begin a trace is 0 to 1, not %v", c.Ratio)
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/v1/traces"
	}
	if c.Service == "" {
		c.Service = "weir"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	t := &Tracer{config: c, target: u.String(), client: http.Client{Timeout: patience},
		queue: make(chan span, queued), closing: make(chan struct{}), done: make(chan struct{})}
	t.stopping, t.stop = context.WithCancel(context.Background())
	go t.run()
	return t, nil
}

// Span queues a span if whoever asked records his trace, or began none and the
// ratio says so. traceparent is what he sent, or "".
func (t *Tracer) Span(traceparent string, s observe.Span) {
	one := span{Span: s}
	p, ok := parseParent(traceparent)
	switch {
	case ok && !p.sampled, !ok && rand.Float64() >= t.config.Ratio:
		return
	case ok:
		one.parent = p
	default:
		one.root = true
		randomID(one.parent.trace[:])
	}
	randomID(one.id[:])
	select {
	case t.queue <- one:
	default:
		t.dropped.Add(1)
	}
}

// Sent returns how many spans a collector took.
func (t *Tracer) Sent() int64 { return t.sent.Load() }

// Dropped returns how many spans nobody will see.
func (t *Tracer) Dropped() int64 { return t.dropped.Load() }

// Close sends what waits, until ctx is done; then the error says that spans are lost.
// Spans that are told later are never sent.
func (t *Tracer) Close(ctx context.Context) error {
	t.once.Do(func() { close(t.closing) })
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		t.stop()
		<-t.done
		return errors.New("otlp: the collector did not take the last spans in time")
	}
}

// run sends batches until Close.
func (t *Tracer) run() {
	defer close(t.done)
	defer t.stop()
	for {
		spans, last := t.gather()
		if len(spans) > 0 {
			t.deliver(spans)
		}
		if last {
			return
		}
	}
}

// gather waits for a batch. last says that the queue is closed and empty.
func (t *Tracer) gather() (spans []span, last bool) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for len(spans) < batch {
		select {
		case s := <-t.queue:
			spans = append(spans, s)
		case <-timer.C:
			return spans, false
		case <-t.closing:
			return t.drain(spans)
		}
	}
	return spans, false
}

// drain gathers what waits, without waiting.
func (t *Tracer) drain(spans []span) (_ []span, last bool) {
	for len(spans) < batch {
		select {
		case s := <-t.queue:
			spans = append(spans, s)
		default:
			return spans, true
		}
	}
	return spans, false
}

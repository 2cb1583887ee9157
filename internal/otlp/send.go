package otlp

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/redact"
)

// sendWithRetries sends a batch, again if the protocol allows it.
func (t *Tracer) sendWithRetries(spans []span) {
	body := t.encode(spans)
	wait := firstRetryWait
	for attempt := 1; ; attempt++ {
		again, after, err := t.send(body)
		if err == nil {
			t.sent.Add(int64(len(spans)))
			return
		}
		if !again || attempt == maxAttempts || !t.wait(max(wait, min(after, sendTimeout))) {
			t.dropped.Add(int64(len(spans)))
			t.losses.Line(slog.LevelWarn, "spans are lost; the collector cannot be reached or rejects them", "error", err, "lost", t.dropped.Load())
			return
		}
		wait *= 2
	}
}

// send sends a batch once. again reports whether a retry may succeed; after is the least
// wait before it.
func (t *Tracer) send(body []byte) (again bool, after time.Duration, err error) {
	r, err := http.NewRequestWithContext(t.stopping, http.MethodPost, t.target, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	for name, value := range t.config.Headers {
		r.Header.Set(name, value)
	}
	res, err := t.client.Do(r)
	if err != nil {
		return true, 0, redact.Error(err) // the URL may hold a token
	}
	defer res.Body.Close()
	io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be used again
	if res.StatusCode/100 == 2 {
		return false, 0, nil
	}
	switch res.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
			after = time.Duration(s) * time.Second
		}
	}
	return again, after, fmt.Errorf("the collector answered %s", res.Status)
}

// wait waits for d, and reports false if Close ends it early.
func (t *Tracer) wait(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-t.stopping.Done():
		return false
	}
}

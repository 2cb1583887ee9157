package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/internal/testkit/httpapitest"
	"github.com/weirlimit/weir/policy"
)

// Every query of a gate gets a decision or a problem document, and a problem reaches no
// engine.
func FuzzGateQuery(f *testing.F) {
	for _, c := range httpapitest.Queries {
		f.Add(c.Query)
	}
	for _, c := range httpapitest.Gates {
		f.Add(c.Query)
	}
	f.Add("ip=192.0.2.1&n=2&deny=403")
	f.Add("&&key.ip=%00%ff+x&")
	f.Add("ip=a;b=c")
	e := &counting{}
	s, _ := newServer(f, e)
	f.Fuzz(func(t *testing.T, query string) {
		*e = counting{Engine: weir.NewMemory()}
		r := ask(s, "GET", "/gate/search", "", withQuery(query))
		switch {
		case r.status == 400 && e.calls == 0 && json.Valid([]byte(r.body)):
		case (r.status == 204 || r.status == 429 || r.status == 403) && e.calls == 1:
		default:
			t.Errorf("%q: status %d, %d calls of the engine: %s", query, r.status, e.calls, r.body)
		}
	})
}

// BenchmarkHandlers measures the handlers alone, without net/http, and a gate that records
// every call with the writer of the trace. bench/service compares whole processes.
func BenchmarkHandlers(b *testing.B) {
	const body = `{"policy":"push","key":{"teacher":"42"},"n":1}`
	for _, c := range []struct{ name, method, target, body string }{
		{"check", "POST", "/v1/check", body},
		{"gate", "GET", "/gate/push?teacher=42", ""},
		{"recorded gate", "GET", "/gate/push?teacher=42", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			config := Config{Policies: &policy.File{Policies: []*policy.Definition{{Name: "push", Limits: []weir.Limit{
				{Name: "limit", Max: weir.MaxUnits, Window: 10 * time.Millisecond, By: []string{"teacher"}}}}}}}
			if c.name == "recorded gate" {
				record, err := recorder.Open(recorder.Config{Path: b.TempDir() + "/trace", Sample: 1, FileBytes: 64 << 20, Files: 1})
				if err != nil {
					b.Fatal(err)
				}
				defer record.Close()
				config.Recorder = record
			}
			s, err := New(config)
			if err != nil {
				b.Fatal(err)
			}
			r, h := request(c.method, c.target, ""), s.main
			body := strings.NewReader(c.body)
			r.Body = io.NopCloser(body)
			w := discard{}
			b.ReportAllocs()
			for b.Loop() {
				clear(w)
				body.Reset(c.body)
				h.ServeHTTP(w, r)
			}
		})
	}
}

// discard is a ResponseWriter that keeps only the header.
type discard http.Header

func (d discard) Header() http.Header         { return http.Header(d) }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

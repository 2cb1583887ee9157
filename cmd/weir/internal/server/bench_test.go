package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/policy"
)

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
			s, err := New(complete(config))
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

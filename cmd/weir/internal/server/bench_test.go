package server

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
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

// BenchmarkOverrides compares the handler's checks of keys without an override, with none in the
// store and with 10,000. The runs are short and alternate. The lowest tenth of each kind met the
// least other work on the machine: ns are its upper bound, and ratio is that of the two.
//
//	make operators
func BenchmarkOverrides(b *testing.B) {
	const stored, keys, each = 10_000, 10_000, 500
	var servers [2]*Server
	for i := range servers {
		s, err := New(complete(Config{Policies: &policy.File{Policies: []*policy.Definition{{Name: "push", Limits: []weir.Limit{
			{Name: "limit", Max: weir.MaxUnits, Window: time.Second, By: []string{"teacher"}}}}}}}))
		if err != nil {
			b.Fatal(err)
		}
		servers[i] = s
	}
	for n := range stored {
		body := fmt.Sprintf(`{"key":{"teacher":"customer-%d"},"max":%d,"reason":"r","author":"a"}`, n, weir.MaxUnits)
		if r := ask(servers[1], "PUT", "/v1/overrides/push", body); r.status != 200 {
			b.Fatal(r)
		}
	}
	var bodies []string
	for n := range keys {
		bodies = append(bodies, fmt.Sprintf(`{"policy":"push","key":{"teacher":"user-%d"},"n":1}`, n))
	}
	r, w := request("POST", "/v1/check", ""), discard{}
	body := strings.NewReader("")
	r.Body = io.NopCloser(body)
	decide := func(s *Server) time.Duration {
		began := time.Now()
		for range each {
			clear(w)
			body.Reset(bodies[rand.IntN(keys)])
			s.main.ServeHTTP(w, r)
		}
		return time.Since(began)
	}
	for range 2 * keys / each {
		decide(servers[0])
		decide(servers[1])
	}
	var took [2][]time.Duration
	b.ResetTimer()
	for round := range b.N {
		for _, i := range []int{round % 2, 1 - round%2} {
			took[i] = append(took[i], decide(servers[i]))
		}
	}
	none, some := lowestTenth(took[0]), lowestTenth(took[1])
	b.ReportMetric(float64(none.Nanoseconds())/each, "ns/none")
	b.ReportMetric(float64(some.Nanoseconds())/each, "ns/10000")
	ratio := float64(some) / float64(none)
	b.ReportMetric(ratio, "ratio")
	if b.N >= 1000 && ratio > 1.03 {
		b.Errorf("with 10,000 overrides a decision takes %.3f times as long, want 1.03 at most", ratio)
	}
}

// lowestTenth sorts durations and returns the longest of the lowest tenth.
func lowestTenth(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/10]
}

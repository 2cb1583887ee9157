//go:build unix

package server

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/recorder"
	"github.com/weirlimit/weir/policy"
)

const (
	benchBody  = `{"policy":"push","key":{"teacher":"42"},"n":1}`
	checkBytes = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 46\r\n\r\n" + benchBody
	gateBytes  = "GET /gate/push?teacher=42 HTTP/1.1\r\nHost: weir\r\n\r\n"
)

// BenchmarkCheck compares the CPU time of POST /v1/check with that of a net/http handler
// that reads the same body and writes an answer of the same length. BenchmarkGate compares
// a gate with a handler that answers 204. Each server is a process of its own, so the
// client's work is not measured. The metric is the median ratio of rounds in turns. The
// goals are 1.5 and 1.25.
//
//	go test -run xxx -bench . -benchtime 100000x ./cmd/weir/internal/server
func BenchmarkCheck(b *testing.B) { compare(b, checkBytes, "empty", "weir") }

func BenchmarkGate(b *testing.B) { compare(b, gateBytes, "empty", "weir") }

// BenchmarkRecord compares a gate that records every call with one that records none. The
// writer of the trace is included.
func BenchmarkRecord(b *testing.B) { compare(b, gateBytes, "weir", "recording") }

func compare(b *testing.B, request, yardstick, subject string) {
	const round = 2000
	base, ours := startChild(b, yardstick), startChild(b, subject)
	for _, c := range []*child{base, ours} {
		c.cost(b, request, round) // warm
	}
	var ratios []float64
	b.ResetTimer()
	for i := 0; i < b.N; i += 2 * round {
		x, y := base, ours
		if len(ratios)%2 == 1 {
			x, y = ours, base
		}
		first, second := x.cost(b, request, round), y.cost(b, request, round)
		if x == ours {
			first, second = second, first
		}
		ratios = append(ratios, float64(second)/float64(first))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "ratio")
}

// benchHandler returns the handler of a child process.
func benchHandler(name string) http.Handler {
	var record *recorder.Recorder
	if name == "recording" {
		dir, err := os.MkdirTemp("", "weir")
		if err != nil {
			panic(err)
		}
		record, err = recorder.Open(recorder.Config{Path: dir + "/trace", Sample: 1, FileBytes: 64 << 20, Files: 1})
		if err != nil {
			panic(err)
		}
	}
	s := benchServer(record)
	if name != "empty" {
		return s.Handler()
	}
	length := len(ask(s, "POST", "/v1/check", benchBody).body)
	answer := make([]byte, length)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if _, err := io.ReadAll(r.Body); err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(length))
		w.Write(answer)
	})
}

// benchServer serves one policy that always grants.
func benchServer(record *recorder.Recorder) *Server {
	s, err := New(Config{Recorder: record, Policies: &policy.File{Policies: []*policy.Definition{{Name: "push", Limits: []weir.Limit{
		{Name: "limit", Max: weir.MaxUnits, Window: 10 * time.Millisecond, By: []string{"teacher"}}}}}}})
	if err != nil {
		panic(err)
	}
	return s
}

// BenchmarkHandlers measures the handlers alone, without net/http.
func BenchmarkHandlers(b *testing.B) {
	h := benchServer(nil).Handler()
	for _, c := range []struct{ name, method, target, body string }{
		{"check", "POST", "/v1/check", benchBody},
		{"gate", "GET", "/gate/push?teacher=42", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := request(c.method, c.target, "")
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

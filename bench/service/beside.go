package main

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// answer is as long as weir's answer to a check.
var answer = make([]byte, 420)

// fields are those of a gate's 204.
var fields = http.Header{
	"Cache-Control":    {"no-store"},
	"RateLimit-Policy": {`"limit";q=1000000;w=3600`},
	"RateLimit":        {`"limit";r=999998;t=3600`},
}

// serveNothing is the least server of net/http: it reads the body and writes bytes, or
// answers a GET with 204. guarded adds weir's timeouts, fields also the header fields of a
// gate. It prints its address as weir does.
func serveNothing(as string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "weir listens on http://%s\n  look\n", l.Addr())
	var s http.Server
	if as != "plain" {
		s = http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: 2 * time.Minute}
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if as == "fields" {
				maps.Copy(w.Header(), fields)
			}
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		w.Write(answer)
	})
	return s.Serve(l)
}

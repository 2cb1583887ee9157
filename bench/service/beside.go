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

// serveNothing answers as net/http does at the least: it reads the body and writes
// bytes, or for a GET 204; as guarded, with weir's timeouts, and as telling, with the
// header fields of a gate as well. It says where it listens as weir does.
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
			if as == "telling" {
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

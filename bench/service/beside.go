package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

// answer is as long as what weir answers to a check.
var answer = make([]byte, 420)

// serveNothing answers as net/http does at the least: it reads the body and writes
// bytes, or for a GET 204; guarded, with weir's timeouts. It says where it listens as
// weir does.
func serveNothing(guarded bool) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "weir listens on http://%s\n  look\n", l.Addr())
	var s http.Server
	if guarded {
		s = http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 20 * time.Second, IdleTimeout: 2 * time.Minute}
	}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
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

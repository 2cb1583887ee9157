package server

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	// maxBody is the largest request body, in bytes: sixteen key values of 1 KiB,
	// every byte of them escaped as \u0000, still fit.
	maxBody = 64 << 10

	// shortBody is the most of a body, in bytes, that is read without a place in
	// Server.bodies. Nearly every call is shorter.
	shortBody = 4 << 10

	// longBodies is how many longer bodies are read at once: 16 MiB of them.
	longBodies = 256
)

var errLongBody = badInput("the body is longer than 64 KiB; a call fits in far less")

// readBody reads the body of r into buf, at most maxBody bytes. The buffer grows with
// the bytes that arrive, and beyond shortBody only if there is a place, so that
// half-sent bodies take little memory together. Limits.Read is the deadline.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, buf []byte) ([]byte, error) {
	buf = buf[:0]
	if r.ContentLength > maxBody {
		stopReading(w, r)
		return buf, errLongBody
	}
	long := false
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, 512)
		}
		end := min(cap(buf), maxBody+1)
		if !long {
			end = min(end, shortBody)
		}
		n, err := r.Body.Read(buf[len(buf):end])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > maxBody:
			stopReading(w, r)
			return buf, errLongBody
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, badInput("the body could not be read to its end; send all of Content-Length, and in time")
		case len(buf) == shortBody && !long:
			if long = s.bodies.enter(); !long {
				stopReading(w, r)
				return buf, errBusy
			}
			defer s.bodies.leave()
		}
	}
}

// stopReading ends the reading of a body that no handler wants. Otherwise net/http waits
// for the rest of it, for Limits.Read at most, before it sends the answer.
func stopReading(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		http.NewResponseController(w).SetReadDeadline(time.Now())
	}
}

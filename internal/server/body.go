package server

import (
	"errors"
	"io"
	"net/http"
	"slices"
)

// maxBody is the largest request body, in bytes: sixteen key values of 1 KiB,
// every byte of them escaped as \u0000, still fit.
const maxBody = 64 << 10

// readBody reads the body of r into buf, at most maxBody bytes.
func readBody(r *http.Request, buf []byte) ([]byte, error) {
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			buf = slices.Grow(buf, 512)
		}
		n, err := r.Body.Read(buf[len(buf):min(cap(buf), maxBody+1)])
		buf = buf[:len(buf)+n]
		switch {
		case len(buf) > maxBody:
			return buf, badInput("the body is longer than 64 KiB; a call fits in far less")
		case errors.Is(err, io.EOF):
			return buf, nil
		case err != nil:
			return buf, badInput("the body could not be read to its end; send all of Content-Length, and in time")
		}
	}
}

package weirhttp

import (
	"bufio"
	"net"
	"net/http"
)

// find returns the first writer that has the methods of T: w, or one that it wraps.
func find[T any](w http.ResponseWriter) (found T, ok bool) {
	for {
		if found, ok = w.(T); ok {
			return found, true
		}
		outer, wraps := w.(interface{ Unwrap() http.ResponseWriter })
		if !wraps {
			return found, false
		}
		w = outer.Unwrap()
	}
}

// optional are the interfaces that handlers look for, because their absence has a meaning.
type optional struct{ flush, hijack, push bool }

// writer returns w with the optional interfaces of the recorded writer and no others.
func (w *statusRecorder) writer() http.ResponseWriter {
	var has optional
	_, has.flush = find[http.Flusher](w.ResponseWriter)
	hijacker, canHijack := find[http.Hijacker](w.ResponseWriter)
	pusher, canPush := find[http.Pusher](w.ResponseWriter)
	has.hijack, has.push = canHijack, canPush
	flush, hijack := flusher{w}, recordedHijacker{w, hijacker}
	switch has {
	case optional{flush: true, hijack: true}: // HTTP/1.1
		return struct {
			*statusRecorder
			http.Flusher
			http.Hijacker
		}{w, flush, hijack}
	case optional{flush: true, push: true}: // HTTP/2
		return struct {
			*statusRecorder
			http.Flusher
			http.Pusher
		}{w, flush, pusher}
	case optional{flush: true}:
		return struct {
			*statusRecorder
			http.Flusher
		}{w, flush}
	case optional{hijack: true}:
		return struct {
			*statusRecorder
			http.Hijacker
		}{w, hijack}
	case optional{push: true}:
		return struct {
			*statusRecorder
			http.Pusher
		}{w, pusher}
	case optional{hijack: true, push: true}:
		return struct {
			*statusRecorder
			http.Hijacker
			http.Pusher
		}{w, hijack, pusher}
	case optional{flush: true, hijack: true, push: true}:
		return struct {
			*statusRecorder
			http.Flusher
			http.Hijacker
			http.Pusher
		}{w, flush, hijack, pusher}
	}
	return w
}

// flusher is the Flusher of a statusRecorder.
type flusher struct{ w *statusRecorder }

// Flush sends the written part of the body. An error cannot be returned; later writes return it.
func (f flusher) Flush() { f.w.FlushError() }

// recordedHijacker is the Hijacker of a statusRecorder.
type recordedHijacker struct {
	w  *statusRecorder
	to http.Hijacker
}

// Hijack takes the connection over, and records that.
func (h recordedHijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := h.to.Hijack()
	if err == nil {
		h.w.record(http.StatusSwitchingProtocols)
	}
	return conn, buffered, err
}

package weirredis

import "context"

// Conn runs scripts on Redis: one server, a Sentinel group, or a Cluster. The
// adapters rueidisconn and goredisconn are Conns; any other client can be one.
//
//   - Eval runs the script at most once. A script that may have run is never sent
//     again: its decision may have been counted.
//   - A server that does not know the script (NOSCRIPT) has not run it; Eval then
//     sends the text.
//   - The reply is one binary string.
//   - What the server answers in place of a reply is a ReplyError. A call that did
//     not reach it is an UnsentError. Any other error leaves open whether the
//     script ran.
//   - In a Cluster the keys of one call hash to one slot; the Engine sees to it. Eval
//     follows redirections, and finds a primary's successor without being retried.
//   - Eval is safe for concurrent use and returns when ctx is done.
//
// A Conn that is also a Topology and a fmt.Stringer tells the Engine whether the
// keys are spread over slots, and errors where the server is.
type Conn interface {
	Eval(ctx context.Context, s *Script, keys, args []string) (string, error)
}

// Topology is what a Conn may tell about its servers.
type Topology interface {
	// Clustered reports whether the keys of a call must hash to one slot.
	Clustered() bool
}

// ReplyError is an error that the server answered. It did not run the script, or
// the script ended before it wrote anything.
type ReplyError string

// Error returns the server's words.
func (e ReplyError) Error() string { return string(e) }

// UnsentError is the error of a call that surely did not reach the server.
type UnsentError struct{ Err error }

// Error returns the words of the cause.
func (e UnsentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UnsentError) Unwrap() error { return e.Err }

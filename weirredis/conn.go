package weirredis

import "context"

// Conn runs scripts on Redis: one server, a Sentinel group, or a Cluster. The packages
// rueidisconn and goredisconn have Conns, and any other client can be made one.
//
//   - Eval runs the script at most once. A script that may have run is never sent
//     again: its decision may have been counted.
//   - A server that does not have the script (NOSCRIPT) has not run it; Eval then
//     sends the text.
//   - The reply is one binary string.
//   - An error reply of the server is a ReplyError. The error of a call that did not
//     reach the server is an UnsentError. Any other error leaves open whether the
//     script ran.
//   - In a Cluster the keys of one call hash to one slot; the Engine ensures that. Eval
//     follows redirections, and finds a primary's successor without a retry.
//   - Eval is safe for concurrent use and returns when ctx is done.
//
// A Conn can also be a Topology; then the Engine can spread keys over the slots of a Cluster. It
// can be a fmt.Stringer; then errors contain the server's address.
type Conn interface {
	Eval(ctx context.Context, s *Script, keys, args []string) (string, error)
}

// Topology is an optional interface of a Conn.
type Topology interface {
	// Clustered reports whether the keys of a call must hash to one slot. A Conn that has
	// not reached its server yet connects, or returns an error until it can: an UnsentError,
	// or a ReplyError of the server. It returns when ctx is done. The Engine asks before its
	// first call, and not again after an answer.
	Clustered(ctx context.Context) (bool, error)
}

// ReplyError is an error reply of the server. The server did not run the script, or
// the script ended before its first write.
type ReplyError string

// Error returns the server's text.
func (e ReplyError) Error() string { return string(e) }

// UnsentError is the error of a call that did not reach the server.
type UnsentError struct{ Err error }

// Error returns the text of the cause.
func (e UnsentError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UnsentError) Unwrap() error { return e.Err }

// Package weirredis decides on Redis or Valkey, for limits that several processes
// share. It is exact for any number of processes and callers: no window holds more
// than its limit, and waits are exact to the microsecond.
//
//	conn, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
//	engine, err := weirredis.New(conn)
//	limiter, err := weir.New(policy, weir.WithEngine(engine))
//
// # Trade-offs
//
// A decision is one script on the server. For one limit it reads and writes one hash,
// at about the cost of two simple commands. A history stores each grant that counts in
// about six bytes, in chunks. A decision needs only a few chunks, so it costs nearly the same
// at 10 as at 10,000 units a window.
//
// Histories are as durable as the server. A server that loses writes in a failover, or
// evicts keys, loses grants; a window may then hold up to twice its limit. Check rejects
// servers that evict. While the server is unreachable nothing is decided; package
// fallback adds an outage policy. A call is never repeated after its reply was lost, because
// it may have been counted. Its error wraps weir.ErrOutcomeUnknown.
//
// The clock is the server's, so the clocks of processes need not agree.
//
// # Servers
//
// Redis from version 6.2 on, or Valkey, alone, behind Sentinels, or as a Cluster;
// docs/redis.md names the versions on which the tests were run. In a Cluster a
// policy spreads over the slots by the dimensions that all its limits count by;
// weir validate describes the slots of a policy.
//
// # One decision, file by file
//
//   - engine.go: Do, the steps in order
//   - cache.go: denials that are answered without the server
//   - request.go, key.go: the request, its packed arguments, its keys and their slots
//   - queue.go, batch.go: callers that share a call
//   - call.go: the script call, and its retry while a slot moves
//   - scripts.go: the scripts, joined from the files that the requests of a call need
//   - lua/: these files; lua/joined: the scripts as the server runs them
//   - reply.go: the result from the reply
//   - inspect.go, stored.go: the entries of a key, in the layout of lua/layout.lua
//
// docs/architecture.md has the steps.
package weirredis

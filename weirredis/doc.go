// Package weirredis decides on Redis or Valkey, for limits that several processes
// share. It is exact: whatever the number of processes and callers, no window holds
// more than its limit, and waits are right to the microsecond.
//
//	conn, err := rueidisconn.New(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
//	engine, err := weirredis.New(conn)
//	limiter, err := weir.New(policy, weir.WithEngine(engine))
//
// # The bargain
//
// A decision is one script on the server: for one limit a read and a write of one
// hash, at about the cost of two plain commands. It remembers each unit that still
// counts in about five bytes, in pieces that no decision needs more than a few of,
// so that it costs the same at 10 as at 10,000 units a window.
//
// What is remembered is as durable as the server. One that loses writes in a
// failover, or forgets keys to make room, forgets grants, and a window may then
// hold up to twice its limit; Check refuses servers that evict. While the server
// cannot be reached nothing is decided; package fallback says what happens then. A
// call whose answer was lost is never repeated, since it may have been counted:
// its error wraps weir.ErrUnknownFate.
//
// The clock is the server's, so processes need not agree on the time.
//
// # What it needs
//
// Redis 6.2 or Valkey 7.2, alone, behind Sentinels, or as a Cluster. In a Cluster a
// policy spreads over the slots by the dimensions that all its limits count by;
// DescribeSlots tells.
//
// # Where to read on
//
// key.go names histories, lua/history.lua says what one looks like, lua/decide.lua
// decides, in the order of internal/spec and with the same rule numbers. lane.go is
// how callers share calls, denial.go how denials are remembered, again.go what is
// asked again, and errors.go what callers are told.
package weirredis

// Package envoy is Envoy's rate limit service, version 3, on a Weir engine: over gRPC
// and, as the reference has it, as JSON over HTTP. A request names a domain and
// descriptors; the answer has a status for each, in their order.
//
// What a request asks for is all or none: a descriptor that is over its limit
// charges none of the others (R7), and a denial charges nothing at all (R4).
// Descriptors that are decided together are decided at one instant. That is so for
// all that are enforced, unless
//
//   - two of them fall under one rule,
//   - some ask for no hits, which is a look, beside others that charge,
//   - they are more than 16, or
//   - the store is a Redis Cluster, whose slots cannot be decided in one step.
//
// Then all are looked at, and only if none would be refused they are charged, one
// step after the other. Should somebody else have been faster, the steps before are
// taken back. So a window never holds more than its limit, and what such a request
// can do wrong is that another one is refused meanwhile.
//
// The bargain: a service for proxies that are trusted. Who can reach the listener
// can charge every key.
package envoy

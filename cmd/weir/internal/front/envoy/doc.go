// Package envoy is version 3 of Envoy's rate limit service on a Weir engine, over gRPC
// and, as in the reference implementation, as JSON over HTTP. A request names a domain
// and descriptors. The answer has a status for each descriptor, in their order.
//
// A request is all or nothing: a descriptor over its limit charges none of the others
// (R7), and a denial charges nothing (R4). All enforced descriptors are decided in one
// step at one instant by enforce.DecideTogether, unless that rejects them: they have too many
// limits, other numbers for one history, histories in different slots of a Redis Cluster, or a
// policy whose denials or reports are counted.
//
// Those requests take several steps: a peek at every descriptor, then a charge for each
// if all peeks fit. If a concurrent request takes the room in between, the charges made
// so far are refunded. So a window never exceeds its limit; the cost is that such a
// request may briefly deny another one.
//
// Trade-off: the service trusts its clients, which are proxies. Every client of the
// listener can charge every key.
//
// A request passes these files in order: admit.go, handle.go, service.go, resolve.go,
// decide.go, query.go, answer.go, write.go.
package envoy

// Package weirhttp applies a weir.Limiter to HTTP handlers and to HTTP clients.
//
//	perIP := weirhttp.Middleware(limiter, weirhttp.By{"ip": weirhttp.ClientIP()})
//	http.ListenAndServe(addr, perIP(handler))
//
// A request over the limit gets status 429 with Retry-After, the RateLimit and
// RateLimit-Policy fields of draft-ietf-httpapi-ratelimit-headers-10, and a problem
// document (RFC 9457) that gives the reason and the next step in one sentence.
//
// On the client side, requests wait for room before they are sent, and back off when a
// server requests it:
//
//	client := &http.Client{Transport: weirhttp.Transport(limiter, weirhttp.By{"host": weirhttp.Host})}
//
// # Trade-off
//
// The key of a request comes only from the functions in [By]; there is no default.
// Middleware and Transport compare their names with the policy, so a missing or
// misspelled dimension stops the program at its start. A request without a value is
// rejected with 400 and never counted together with others, unless the value is
// [Optional]. Forwarding headers are read only when the peer is one of your
// [TrustedProxies]. When no decision is possible the request is rejected with 503,
// unless [FailOpen] is set.
//
// A proxy that needs decisions over the network uses `weir serve` and its /gate.
package weirhttp

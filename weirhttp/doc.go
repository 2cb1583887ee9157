// Package weirhttp holds HTTP handlers and clients to the limits of a weir.Limiter.
//
//	perIP := weirhttp.Middleware(limiter, weirhttp.ByClientIP())
//	http.ListenAndServe(addr, perIP(handler))
//
// A request over the limit gets 429 with Retry-After, the RateLimit and
// RateLimit-Policy fields of draft-ietf-httpapi-ratelimit-headers-10, and a
// problem document (RFC 9457) that says in one sentence what to do.
//
// A client waits for its turn before it sends, and stays away when a server says so:
//
//	client := &http.Client{Transport: weirhttp.Transport(limiter, weirhttp.KeyBy(weirhttp.Host))}
//
// # The bargain
//
// Whom a request is counted for is always said by a function that the caller
// passes; nothing is guessed. A request that names nobody is refused with 400,
// never counted together with others, and no header is believed unless the peer
// that sent it is a proxy you listed. When no decision can be made the request is
// refused with 503, unless FailOpen says otherwise.
//
// A proxy that should ask for decisions over the network wants `weir serve` and
// its /gate instead.
package weirhttp

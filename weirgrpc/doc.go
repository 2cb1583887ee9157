// Package weirgrpc applies the limits of a weir.Limiter to gRPC servers and clients.
//
//	by := weirgrpc.By{"tenant": weirgrpc.Metadata("tenant")}
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(weirgrpc.Unary(limiter, by)),
//		grpc.ChainStreamInterceptor(weirgrpc.Stream(limiter, by)))
//
// A call over the limit ends with RESOURCE_EXHAUSTED, a sentence with the next step, and
// the standard details: RetryInfo with the exact wait, and QuotaFailure with every limit
// that denied the call. The trailer grpc-retry-pushback-ms makes clients with a retry
// policy retry at the right time, or not at all if waiting does not help.
//
// # Trade-off
//
// The caller provides the key of each call by functions; nothing is guessed. A call
// without a key ends with INVALID_ARGUMENT and is never counted together with others,
// unless the value is [Optional]. If no decision can be made, it ends with UNAVAILABLE,
// unless [FailOpen] is set. A stream is counted when it begins and, with [EachMessage],
// for every message received.
package weirgrpc

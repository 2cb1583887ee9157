// Package weirgrpc holds gRPC services and clients to the limits of a weir.Limiter.
//
//	by := weirgrpc.By{"tenant": weirgrpc.Metadata("tenant")}
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(weirgrpc.Unary(limiter, by)),
//		grpc.ChainStreamInterceptor(weirgrpc.Stream(limiter, by)))
//
// A call over the limit ends with RESOURCE_EXHAUSTED, a sentence that says what to
// do, and the details that clients look for: RetryInfo with the exact wait, and
// QuotaFailure with every limit that stood in the way. The trailer
// grpc-retry-pushback-ms makes clients that retry by a policy of their own come
// back at the right time, or not at all if no waiting helps.
//
// # The bargain
//
// Whom a call is counted for is always said by a function that the caller passes;
// nothing is guessed. A call that names nobody ends with INVALID_ARGUMENT, never
// counted together with others. When no decision can be made it ends with
// UNAVAILABLE, unless FailOpen says otherwise. A stream is counted when it begins
// and, with EachMessage, for every message that comes in.
package weirgrpc

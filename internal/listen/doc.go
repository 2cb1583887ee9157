// Package listen opens the addresses of servers and decides which clients may connect:
// the same for HTTP, gRPC and RESP.
//
//   - Address: TCP or a unix socket, and whether other machines can reach it.
//   - Open: a listener with bounds on its connections, with or without TLS.
//   - TLS: a certificate, and the authorities of client certificates, read again when
//     their files change.
//   - Secret: a secret that callers send, compared in constant time; two at once during a
//     rotation.
//   - ExposedError: a server without either must not be reachable from other machines.
//
// Trade-off: a secret is for the programs of one operator, not for people. There are no
// users, roles or sessions.
package listen

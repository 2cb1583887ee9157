// Package listen opens the addresses that servers answer on, and says who may
// talk there: the same for HTTP, gRPC and RESP.
//
//   - Address: TCP or a unix socket, and whether other machines can reach it.
//   - Open: a listener with a bound on its connections, with or without TLS.
//   - TLS: a certificate, and the authority of clients' certificates, read again
//     when their files change.
//   - Secret: what a caller must show, compared in constant time; two at once
//     while one takes the place of the other.
//   - Exposed: the refusal to serve other machines without either of them.
//
// The bargain: a secret is for programs of one operator, not for people; there
// are no users, roles or sessions here.
package listen

// Package accesslog reads the access logs of web servers, proxies and load balancers as
// one sequence of requests, sorted by time.
//
//	log, err := accesslog.Open([]string{"access.log", "access.log.1.gz"}, accesslog.Options{Reorder: accesslog.DefaultReorder})
//	for entry, err := range log.Entries(accesslog.RemoteAddr) {
//		if err != nil {
//			return err
//		}
//		client, ok := entry.Get(accesslog.RemoteAddr)
//	}
//
// # Formats
//
//	combined    the log of Apache and nginx, also with further columns
//	common      the same without referer and user agent
//	nginx-json  one JSON object for each line, named like the variables of nginx
//	caddy       JSON
//	traefik     its common log format, or JSON
//	envoy       its default text format, or JSON
//	alb         AWS Application Load Balancer
//	cloudfront  AWS CloudFront, and other W3C logs with a #Fields line
//
// The format of each file is detected from its first lines, unless [Options] names it.
// Files may be compressed by gzip or zstd, which is detected from their first bytes.
//
// # Fields
//
// [ParseField] accepts one name for the same fact of every format:
//
//	remote_addr  the client address without port: the first column, client_ip (Caddy),
//	             ClientHost (Traefik), client:port (ALB), c-ip (CloudFront), and in the
//	             text of Envoy, which has no peer address, the last of x-forwarded-for
//	method, path (without query), query, host, status, user, user_agent, referer
//	bytes        the size of the response
//	header:NAME  a logged field of the request's header
//
// Any other name is that of a column or member as the log itself has it: target_group_arn,
// x-edge-location, request.tls.version. [Options].Fields maps one of the names above, or
// time, to such a name. Letter case, - and _ are equal in names of JSON members.
//
// # Time
//
// The instant is the log's own timestamp: the time of ALB and not its creation time, and
// StartUTC of Traefik. A time without a zone makes the line a bad one, because a guess
// could be wrong by hours. CloudFront writes UTC by definition. A number is seconds if it
// is below 1e11, milliseconds below 1e14, microseconds below 1e17, else nanoseconds.
//
// # Trade-off
//
// Lines wait in memory until no later line can come before them. Of each the values of the
// fields that the caller reads are kept, and no other text, so that long lines need little
// memory. All values that wait take at most 128 MiB.
//
// Own parsers of text were preferred to libraries. They index a line, and decode a field only
// when it is read. Package time reads instants. Almost nothing is allocated for a line once the
// buffers have grown. Measured on one core of a loaded machine, each line with its time and five
// fields:
//
//	envoy 3.4, common 2.7, cloudfront 2.6, traefik 2.4, alb 2.2, combined 1.6,
//	nginx-json 0.8, caddy 0.6 million lines a second
//
// The Go library for combined logs, gonx, uses regular expressions and had its last
// release in 2018. Compressed files are read by compress/gzip and by klauspost/compress,
// because the standard library has no zstd.
//
// Lines of JSON are read by package jsontext of go-json-experiment, as elsewhere in Weir. A
// reader of our own was two to three times as fast, and accepted lines that are not JSON. The
// escape \xHH of nginx is read all the same, and its - without quotes as null. Of several
// equal members the first counts. A line has its first 1,024 members.
package accesslog

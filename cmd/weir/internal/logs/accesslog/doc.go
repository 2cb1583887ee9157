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
//	common      the same without referer and user agent, also with further columns
//	nginx-proxy-manager
//	            the text of a proxy host, and of the default site
//	nginx-json  one JSON object for each line, named like the variables of nginx
//	caddy       JSON, or its console
//	traefik     its common log format, or JSON
//	envoy       its default text format, that of Istio, or JSON
//	haproxy     option httplog or httpslog
//	alb, elb    AWS Application Load Balancer, and Classic Load Balancer
//	cloudfront  AWS CloudFront
//	w3c         other W3C logs with a #Fields line, such as those of IIS
//	logfmt      NAME=VALUE, with the names of nginx-json
//
// Any of them may stand in the log of a container: behind the prefix of containerd, or in the
// objects of Docker's json-file. JSON may stand behind a prefix of syslog or compose.
//
// # Detection
//
// The format of each file is that of most of its first 200 lines that fit one, unless [Options]
// names it. A line fits a format if it can be split, its client is an address, its status three
// digits, and its time plausible; client or status must be there. Lines that fit no format, such as
// messages of the server, have no vote. Two formats with equal votes are an error with both names. A
// file of which less than half was read ends with an error, because it probably has another format.
//
// Files may be compressed by gzip or zstd, which is detected from their first bytes. Zero bytes
// before a line, as copytruncate of logrotate leaves them, are skipped and counted. If a crash left
// them in a line, the line behind them is read, and the one before them is a bad one.
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
// time, to such a name. Letter case, - and _ are equal in names of columns and members.
//
// # Time
//
// The instant is the log's own timestamp: the time of ALB and not its creation time, and
// StartUTC of Traefik. A time without a zone makes the line a bad one, because a guess could be
// wrong by hours; [Options].Zone names one. CloudFront, W3C and Caddy's console write UTC by
// definition. HAProxy writes local times without a zone, which are read as UTC and counted. A
// number is seconds if it is below 1e11, milliseconds below 1e14, microseconds below 1e17, else
// nanoseconds. An hour that the zone has twice is the second one if the line before was in it.
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

package accesslog

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// example is a real line of a format with the fields that it has. A field with the value
// "" must be absent.
type example struct {
	name   string
	format Format
	text   string // the last line is the one that is read
	at     string
	want   map[string]string
}

const cloudFrontHeader = "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for ssl-protocol ssl-cipher x-edge-response-result-type cs-protocol-version fle-status fle-encrypted-fields c-port time-to-first-byte x-edge-detailed-result-type sc-content-type sc-content-len sc-range-start sc-range-end\n"

var examples = []example{
	{"common", Common, `127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif?a=b HTTP/1.0" 200 2326`,
		"2000-10-10T20:55:36Z", map[string]string{"remote_addr": "127.0.0.1", "user": "frank", "method": "GET", "path": "/apache_pb.gif", "query": "a=b", "status": "200", "bytes": "2326", "user_agent": "", "host": "", "ident": ""}},
	{"common without values", Common, `2001:db8::7 - - [10/Oct/2000:13:55:36 +0000] "-" 408 -`,
		"2000-10-10T13:55:36Z", map[string]string{"remote_addr": "2001:db8::7", "user": "", "method": "", "path": "", "bytes": "", "status": "408"}},
	{"combined", Combined, `203.0.113.9 - ann smith [05/Mar/2026:08:00:01 +0130] "POST /search?q=%22x%22 HTTP/1.1" 429 17 "https://example.com/" "Mozilla/5.0 (X11; \"quoted\" \\ \x41)"`,
		"2026-03-05T06:30:01Z", map[string]string{"remote_addr": "203.0.113.9", "user": "ann smith", "method": "POST", "path": "/search", "query": "q=%22x%22", "referer": "https://example.com/", "user_agent": `Mozilla/5.0 (X11; "quoted" \ A)`, "header:User-Agent": `Mozilla/5.0 (X11; "quoted" \ A)`, "header:X-Forwarded-For": ""}},
	{"combined, main of nginx", Combined, `10.0.0.1 - - [05/Mar/2026:08:00:01 +0000] "GET http://shop.example:8080/a HTTP/1.1" 200 17 "-" "-" "198.51.100.4"`,
		"2026-03-05T08:00:01Z", map[string]string{"path": "/a", "host": "shop.example", "referer": "", "user_agent": "", "header:x-forwarded-for": "198.51.100.4"}},
	{"combined, TLS on a plain port", Combined, `10.0.0.1 - - [05/Mar/2026:08:00:01 +0000] "\x16\x03\x01\x02" 400 157 "-" "-"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "10.0.0.1", "method": "", "path": "", "status": "400"}},
	{"nginx-json", NginxJSON, `{"time_iso8601":"2026-03-05T08:00:01+01:00","remote_addr":"2001:db8::1","remote_user":"","request_method":"GET","request_uri":"/a%20b?x=\u00e9\"","status":"200","body_bytes_sent":1234,"http_host":"example.com","http_user_agent":"a\/b \\ \ud83d\ude00","http_x_user":"u7","http_referer":null,"extra":{"deep":["v"]}}`,
		"2026-03-05T07:00:01Z", map[string]string{"remote_addr": "2001:db8::1", "user": "", "method": "GET", "path": "/a%20b", "query": "x=é\"", "status": "200", "bytes": "1234", "host": "example.com", "user_agent": `a/b \ 😀`, "header:X-User": "u7", "referer": "", "extra.deep": "v", "missing": ""}},
	{"nginx-json with msec", NginxJSON, `{"msec":1772697601.123,"remote_addr":"1.2.3.4","request":"GET /x?y HTTP/2.0","http_user_agent":"a\x22b"}`,
		"2026-03-05T08:00:01.123Z", map[string]string{"remote_addr": "1.2.3.4", "method": "GET", "path": "/x", "query": "y", "user_agent": `a"b`}},
	{"nginx-json with two times, of which msec is exact", NginxJSON, `{"time_iso8601":"2026-03-05T08:00:01+00:00","msec":"1772697601.123","remote_addr":"1.2.3.4"}`,
		"2026-03-05T08:00:01.123Z", map[string]string{"remote_addr": "1.2.3.4"}},
	{"nginx-json, Logpush of Cloudflare", NginxJSON, `{"ClientIP":"192.0.2.7","ClientRequestHost":"shop.example","ClientRequestMethod":"GET","ClientRequestURI":"/a?b","ClientRequestUserAgent":"curl/8","EdgeEndTimestamp":1772697601500000000,"EdgeResponseBytes":17,"EdgeResponseStatus":200,"EdgeStartTimestamp":1772697601250000000,"RayID":"87a1"}`,
		"2026-03-05T08:00:01.25Z", map[string]string{"remote_addr": "192.0.2.7", "host": "shop.example", "path": "/a", "query": "b", "status": "200", "bytes": "17", "user_agent": "curl/8"}},
	{"caddy", Caddy, `{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"2001:db8::5","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b=1","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"],"X-User":["\"u\"","v"]},"tls":{"resumed":false,"version":772}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}`,
		"2022-03-09T21:30:01.524102Z", map[string]string{"remote_addr": "2001:db8::5", "method": "GET", "path": "/a", "query": "b=1", "host": "localhost", "status": "200", "bytes": "10900", "user": "", "user_agent": "curl/7.82.0", "header:x-user": `"u"`, "header:Server": "", "request.tls.version": "772", "logger": "http.log.access"}},
	{"caddy with a time as text", Caddy, `{"ts":"2022-03-09T21:30:01.5Z","request":{"remote_addr":"[2001:db8::5]:4711","uri":"/"},"status":200}`,
		"2022-03-09T21:30:01.5Z", map[string]string{"remote_addr": "2001:db8::5", "path": "/"}},
	{"traefik", Traefik, `192.168.1.9 - eve [09/Mar/2022:21:30:01 +0000] "GET /whoami?x HTTP/1.1" 200 415 "-" "curl/8" 42 "web@docker" "http://10.0.0.2:80" 3ms`,
		"2022-03-09T21:30:01Z", map[string]string{"remote_addr": "192.168.1.9", "user": "eve", "path": "/whoami", "status": "200", "bytes": "415", "referer": "", "user_agent": "curl/8", "router": "web@docker"}},
	{"traefik JSON", Traefik, `{"ClientAddr":"[2001:db8::9]:5100","ClientHost":"2001:db8::9","ClientPort":"5100","ClientUsername":"-","DownstreamContentSize":415,"DownstreamStatus":200,"RequestAddr":"w.example:80","RequestHost":"w.example","RequestMethod":"GET","RequestPath":"/who?x=1","RequestProtocol":"HTTP/1.1","StartLocal":"2022-03-09T22:30:01.000000009+01:00","StartUTC":"2022-03-09T21:30:01.000000009Z","level":"info","msg":"","request_User-Agent":"curl/8","request_X-User":"eve","time":"2022-03-09T21:30:02Z"}`,
		"2022-03-09T21:30:01Z", map[string]string{"remote_addr": "2001:db8::9", "user": "", "method": "GET", "path": "/who", "query": "x=1", "host": "w.example", "status": "200", "bytes": "415", "user_agent": "curl/8", "header:x-user": "eve"}},
	{"envoy", Envoy, `[2016-04-15T20:17:00.310Z] "POST /api/v1/locations?x HTTP/2" 204 - 154 7 226 100 "203.0.113.1, 10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"`,
		"2016-04-15T20:17:00.31Z", map[string]string{"remote_addr": "10.0.35.28", "method": "POST", "path": "/api/v1/locations", "query": "x", "host": "locations", "status": "204", "bytes": "7", "user_agent": "nsq2http", "header:x-request-id": "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2", "response_flags": ""}},
	{"envoy JSON", Envoy, `{"start_time":"2016-04-15T20:17:00.310Z","method":"GET","path":"/a?b","protocol":"HTTP/2","response_code":200,"response_flags":"-","bytes_received":0,"bytes_sent":81,"duration":3,"x_forwarded_for":null,"user_agent":"curl","request_id":"r1","authority":"locations","downstream_remote_address":"10.1.2.3:40000"}`,
		"2016-04-15T20:17:00.31Z", map[string]string{"remote_addr": "10.1.2.3", "method": "GET", "path": "/a", "query": "b", "host": "locations", "status": "200", "bytes": "81", "user_agent": "curl", "request-id": "r1"}},
	{"envoy JSON without a peer", Envoy, `{"start_time":"2016-04-15T20:17:00.310Z",":authority":"shop","response_code":200,"x-forwarded-for":"2001:db8::8","user-agent":"curl"}`,
		"2016-04-15T20:17:00.31Z", map[string]string{"remote_addr": "2001:db8::8", "host": "shop", "user_agent": "curl"}},
	{"alb", ALB, `https 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://www.example.com:443/a?b=c HTTP/1.1" "curl/7.46.0 \"x\"" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337281-1d84f3d73c47ec4e58577259" "www.example.com" "arn:aws:acm:us-east-2:123456789012:certificate/12345678-1234-1234-1234-123456789012" 1 2018-07-02T22:22:48.364000Z "authenticate,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_123456`,
		"2018-07-02T22:23:00.186641Z", map[string]string{"remote_addr": "192.168.131.39", "method": "GET", "path": "/a", "query": "b=c", "host": "www.example.com", "status": "200", "bytes": "57", "user_agent": `curl/7.46.0 "x"`, "domain_name": "www.example.com", "redirect_url": "", "conn_trace_id": "TID_123456"}},
	{"alb without a target", ALB, `h2 2018-07-02T22:23:00.186641Z app/lb/50dc 2001:db8:1:2:3:4:5:6:2817 - -1 -1 -1 502 - 0 - "- http://a.example:80- -" "-" - - - "-" "-" "-" - 2018-07-02T22:22:48.364000Z "-" "-" "-" "-" "-" "-" "-"`,
		"2018-07-02T22:23:00.186641Z", map[string]string{"remote_addr": "2001:db8:1:2:3:4:5:6", "status": "502", "method": "", "bytes": "", "user_agent": ""}},
	{"cloudfront", CloudFront, cloudFrontHeader + "2019-12-04\t21:02:31\tLAX1\t392\t2001:db8::2\tGET\td111.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0%20(Windows%20NT%2010.0)\ta=1\t-\tHit\tSOX4xwn4XV6Q4rgb7XiVGOHms_BGlTAC4KyHmureZmBNrjGdRLiNIQ==\twww.example.com\thttps\t23\t0.001\t-\tTLSv1.2\tECDHE-RSA-AES128-GCM-SHA256\tHit\tHTTP/2.0\t-\t-\t11040\t0.001\tHit\ttext/html\t78\t-\t-",
		"2019-12-04T21:02:31Z", map[string]string{"remote_addr": "2001:db8::2", "method": "GET", "path": "/index.html", "query": "a=1", "host": "www.example.com", "status": "200", "bytes": "392", "referer": "", "user_agent": "Mozilla/5.0 (Windows NT 10.0)", "header:cookie": "", "x-edge-location": "LAX1"}},
	{"W3C with columns in another order", W3C, "#Version: 1.0\n#Fields: c-ip sc-status time date cs(X-User) cs-uri-stem\n192.0.2.7\t403\t21:02:31\t2019-12-04\teve\t/a",
		"2019-12-04T21:02:31Z", map[string]string{"remote_addr": "192.0.2.7", "status": "403", "path": "/a", "header:X-User": "eve", "host": ""}},
	{"cloudfront copied with spaces", CloudFront, "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query\n2012-05-24  11:35:53  DFW3  3343  99.116.172.58 GET d3gs014xn8p70.cloudfront.net  /not-ice.png  200 http://example.com/2 Mozilla/5.0%20(Windows;%20rv:12.0)  e=pv",
		"2012-05-24T11:35:53Z", map[string]string{"remote_addr": "99.116.172.58", "path": "/not-ice.png", "status": "200", "bytes": "3343", "user_agent": "Mozilla/5.0 (Windows; rv:12.0)", "query": "e=pv"}},
	{"combined with an address as the virtual host", Combined, `127.0.1.1:80 192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7"}},
	{"common with an IPv6 address as the virtual host", Common, `[2001:db8::1]:443 192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 17`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7"}},
	{"common with an address as the identity", Common, `192.0.2.7 198.51.100.4 - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 17`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "ident": "198.51.100.4"}},
	{"combined behind the prefix of syslog", Combined, `Mar 15 08:00:01 web1 nginx: 192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "user": "", "path": "/a"}},
	{"combined behind the prefix of syslog and a day of one digit", Combined, `Mar  5 08:00:01 10.0.0.5 nginx[12]: 192.0.2.7 - ann smith [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "user": "ann smith", "path": "/a"}},
	{"combined behind the prefix of syslog in its newer form", Combined, `<134>1 2026-03-05T08:00:01Z web1 nginx - - - 192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "user": "", "path": "/a"}},
	{"combined behind the prefix of a container", Combined, `2026-03-05T08:00:01.123456789Z stdout F 192.0.2.7 - a 198.51.100.4 - b [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "user": "a 198.51.100.4 - b", "path": "/a"}},
	{"combined behind the prefix of compose and a virtual host", Combined, `web-1  | www.example.com:443 192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "user": "", "path": "/a"}},
	{"combined with a virtual host and milliseconds", Combined, `www.example.com:443 2001:db8::7 - ann [05/Mar/2026:08:00:01.250 +0100] "GET /a HTTP/1.1" 200 17 "-" "curl" 0.005`,
		"2026-03-05T07:00:01.25Z", map[string]string{"remote_addr": "2001:db8::7", "user": "ann", "path": "/a", "status": "200", "user_agent": "curl", "header:x-forwarded-for": ""}},
	{"combined with an empty request", Combined, `192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "" 400 0 "-" "-"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "status": "400", "path": "", "method": ""}},
	{"envoy JSON of Istio", Envoy, `{"timestamp":"2026-03-05T08:00:01.250Z","method":"GET","path":"/a?b","protocol":"HTTP/2","response_code":"200","response_flags":"-","bytes_sent":"81","x_forwarded_for":"-","user_agent":"curl","authority":"shop","downstream_remote_address":"[2001:db8::7]:40000","route_name":"default"}`,
		"2026-03-05T08:00:01.25Z", map[string]string{"remote_addr": "2001:db8::7", "path": "/a", "status": "200", "bytes": "81", "host": "shop", "header:x-forwarded-for": "", "route_name": "default"}},
	{"alb to a Lambda function", ALB, `http 2018-11-30T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 - 0.000 0.001 0.000 502 - 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337364-23a8c76965a2ef7629b185e3" "-" "-" 0 2018-11-30T22:22:48.364000Z "forward" "-" "LambdaInvalidResponse" "-" "-" "-" "-"`,
		"2018-11-30T22:23:00.186641Z", map[string]string{"remote_addr": "192.168.131.39", "path": "/", "status": "502", "bytes": "366", "error_reason": "LambdaInvalidResponse"}},
	{"alb of 2016", ALB, `wss 2016-08-10T00:42:46.423695Z app/lb/50dc 10.0.0.140:44244 10.0.0.171:8010 0.000 0.001 0.000 101 101 218 786 "GET https://10.0.0.30:443/ HTTP/1.1" "-" ECDHE-RSA-AES128-GCM-SHA256 TLSv1.2 arn:aws:elasticloadbalancing:us-west-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337364-23a8c76965a2ef7629b185e3"`,
		"2016-08-10T00:42:46.423695Z", map[string]string{"remote_addr": "10.0.0.140", "path": "/", "host": "10.0.0.30", "status": "101", "user_agent": "", "bytes": "786"}},
	{"IIS", W3C, "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2026-03-05 08:00:00\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken\n2026-03-05 08:00:01 10.0.0.4 GET /search q=a 443 - 192.0.2.7 Mozilla/5.0+(Windows+NT+10.0) - 200 0 0 15",
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "method": "GET", "path": "/search", "query": "q=a", "status": "200", "user": "", "user_agent": "Mozilla/5.0+(Windows+NT+10.0)", "s-ip": "10.0.0.4"}},
	{"elb", ELB, `2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/a?b HTTP/1.1" "curl/7.38.0" - -`,
		"2015-05-13T23:39:43.945958Z", map[string]string{"remote_addr": "192.168.131.39", "method": "GET", "path": "/a", "query": "b", "host": "www.example.com", "status": "200", "bytes": "29", "user_agent": "curl/7.38.0"}},
	{"elb with TCP", ELB, `2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.001069 0.000028 0.000041 - - 82 305 "- - - " "-" - -`,
		"2015-05-13T23:39:43.945958Z", map[string]string{"remote_addr": "192.168.131.39", "status": "", "bytes": "305", "method": "", "user_agent": ""}},
	{"haproxy", HAProxy, `Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html?a HTTP/1.1"`,
		"2009-02-06T12:14:14.655Z", map[string]string{"remote_addr": "10.0.1.2", "method": "GET", "path": "/index.html", "query": "a", "status": "200", "bytes": "2750", "frontend": "http-in", "backend/server": "static/srv1", "request_headers": "1wt.eu", "response_headers": ""}},
	{"haproxy without a server, and IPv6", HAProxy, `<134>1 2026-03-05T08:00:01+01:00 lb haproxy 7 - - 2001:db8::7:52000 [05/Mar/2026:08:00:01.250] web~ web/<NOSRV> -1/-1/-1/-1/0 400 187 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"`,
		"2026-03-05T08:00:01.25Z", map[string]string{"remote_addr": "2001:db8::7", "method": "", "status": "400", "request_headers": ""}},
	{"haproxy with TLS", HAProxy, `192.0.2.7:52000 [05/Mar/2026:08:00:01.250] web~ app/a 0/0/1/2/3 200 187 - - ---- 1/1/0/0/0 0/0 {curl/8 x|shop} "GET / HTTP/2.0" 0/0000000000000000/0/0/0 shop.example/TLSv1.3/TLS_AES_128_GCM_SHA256`,
		"2026-03-05T08:00:01.25Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/", "request_headers": "curl/8 x|shop"}},
	{"nginx-proxy-manager", NginxProxyManager, `[05/Mar/2026:08:00:01 +0100] - 200 200 - GET https shop.example "/a?b=c" [Client 192.0.2.7] [Length 1024] [Gzip 2.51] [Sent-to 10.0.0.5] "Mozilla/5.0 (X11)" "https://shop.example/"`,
		"2026-03-05T07:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "method": "GET", "host": "shop.example", "path": "/a", "query": "b=c", "status": "200", "bytes": "1024", "user_agent": "Mozilla/5.0 (X11)", "header:referer": "https://shop.example/", "scheme": "https"}},
	{"nginx-proxy-manager without an upstream, from a cache", NginxProxyManager, `[05/Mar/2026:08:00:01 +0100] HIT - 304 - HEAD http shop.example "/a" [Client 2001:db8::7] [Length 0] [Gzip -] [Sent-to app] "-" "-"`,
		"2026-03-05T07:00:01Z", map[string]string{"remote_addr": "2001:db8::7", "status": "304", "user_agent": ""}},
	{"nginx-proxy-manager, default site", NginxProxyManager, `[05/Mar/2026:08:00:01 +0100] 404 - GET http localhost "/a" [Client 192.0.2.7] [Length 150] [Gzip 3.06] "curl/8" "-"`,
		"2026-03-05T07:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "method": "GET", "path": "/a", "status": "404", "bytes": "150", "user_agent": "curl/8"}},
	{"logfmt", Logfmt, `time="2026-03-05T08:00:01Z" level=info msg="GET \"/a\" done" remote_addr=192.0.2.7:4711 method=GET path=/a?b status=200 bytes=17 tenant=t1 dry`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "method": "GET", "path": "/a", "query": "b", "status": "200", "bytes": "17", "tenant": "t1", "msg": `GET "/a" done`, "dry": ""}},
	{"envoy, text of Istio", Envoy, `[2020-11-25T21:26:18.409Z] "GET /status/418?a HTTP/1.1" 418 - via_upstream - "-" 0 135 4 4 "203.0.113.7,192.0.2.8" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound_.8000_._.httpbin.foo.svc.cluster.local default`,
		"2020-11-25T21:26:18.409Z", map[string]string{"remote_addr": "192.0.2.8", "path": "/status/418", "status": "418", "bytes": "135", "host": "httpbin:8000", "user_agent": "curl/7.73.0-DEV", "route_name": "default"}},
	{"envoy, text of Istio without a proxy", Envoy, `[2020-11-25T21:26:18.409Z] "GET / HTTP/1.1" 200 - via_upstream - "-" 0 135 4 4 "-" "curl" "8496" "httpbin" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 - default`,
		"2020-11-25T21:26:18.409Z", map[string]string{"remote_addr": "10.44.1.23"}},
	{"envoy JSON in a container", Envoy, `2025-12-31T17:37:40.493035218Z stdout F {"start_time":"2025-12-31T17:37:40.479Z","method":"GET","path":"/a","response_code":200,"response_flags":"-","bytes_sent":120,"downstream_remote_address":"192.0.2.7:59292",":authority":"shop.example"}`,
		"2025-12-31T17:37:40.479Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a", "status": "200"}},
	{"nginx-json in a container of Docker", NginxJSON, `{"log":"{\"time\":\"2026-03-05T08:00:01Z\",\"remote_addr\":\"192.0.2.7\",\"status\":200,\"request\":\"GET /a HTTP/1.1\"}\n","stream":"stdout","time":"2026-03-05T08:00:02.5Z"}`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a"}},
	{"combined in a container of Docker", Combined, `{"log":"192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] \"GET /a HTTP/1.1\" 200 17 \"-\" \"curl\"\n","stream":"stderr","attrs":{"tag":"web"},"time":"2026-03-05T08:00:02.5Z"}`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a", "user_agent": "curl"}},
	{"traefik JSON in a container of Kubernetes", Traefik, `2026-03-05T08:00:02.5+01:00 stdout F {"ClientHost":"192.0.2.7","DownstreamStatus":200,"RequestPath":"/a","StartUTC":"2026-03-05T07:00:01Z","level":"info","msg":"","time":"2026-03-05T08:00:02+01:00"}`,
		"2026-03-05T07:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a"}},
	{"nginx-json behind the prefix of syslog, as Fastly sends it", NginxJSON, `2021-11-12T16:59:46.613304+00:00 192.0.2.1  {     "timestamp": "2021-11-12T16:59:45+0000",     "client_ip": "192.0.2.7",     "url": "/a?b",     "request_method": "GET",     "response_status": 404   }`,
		"2021-11-12T16:59:45Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a", "method": "GET"}},
	{"caddy behind the prefix of compose", Caddy, `web-1  | {"level":"info","ts":1646861401.5,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.7","client_ip":"192.0.2.7","method":"GET","uri":"/a","headers":{}},"status":200}`,
		"2022-03-09T21:30:01.5Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a"}},
	{"caddy, console", Caddy, "2022/03/09 21:30:01.524\tINFO\thttp.log.access\thandled request\t" + `{"request": {"remote_ip": "192.0.2.7", "remote_port": "4000", "client_ip": "192.0.2.7", "proto": "HTTP/2.0", "method": "GET", "host": "shop.example", "uri": "/a?b", "headers": {"User-Agent": ["curl/8"]}}, "bytes_read": 0, "user_id": "", "duration": 0.01, "size": 10, "status": 200}`,
		"2022-03-09T21:30:01.524Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a", "query": "b", "status": "200", "user_agent": "curl/8"}},
	{"common with the time that the request took", Common, `192.0.2.7 - - [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 0.005 shop`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "status": "200", "bytes": "17", "referer": ""}},
	{"combined with brackets in the user name", Combined, `192.0.2.7 - a [b] [c [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "user": "a [b] [c", "path": "/a"}},
	{"combined with a virtual host and a host name", Combined, `www.example.com:443 dsl7.example.net - - [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17 "-" "curl"`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "dsl7.example.net", "user": "", "path": "/a"}},
	{"common with a host name and an identity", Common, `dsl7.example.net ann - [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "dsl7.example.net", "ident": "ann", "user": ""}},
	{"common with a host name behind the prefix of syslog", Common, `Mar 15 08:00:01 web1 apache[7]: dsl7.example.net - ann [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "dsl7.example.net", "user": "ann"}},
	{"common with a host name behind the newer prefix of syslog", Common, `<134>1 2026-03-05T08:00:01Z web1 nginx - - - dsl7.example.net - ann [05/Mar/2026:08:00:01 +0000] "GET /a HTTP/1.1" 200 17`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "dsl7.example.net", "user": "ann"}},
	{"envoy behind the prefix of compose", Envoy, `envoy-1  | [2016-04-15T20:17:00.310Z] "GET /a HTTP/2" 0 DC 154 7 226 - "203.0.113.1" "curl" "cc21" "shop" "-"`,
		"2016-04-15T20:17:00.31Z", map[string]string{"remote_addr": "203.0.113.1", "path": "/a", "status": "0"}},
	{"nginx-proxy-manager behind the prefix of kubectl", NginxProxyManager, `[pod/npm-0/app] [05/Mar/2026:08:00:01 +0100] 404 - GET http localhost "/a" [Client 192.0.2.7] [Length 150] [Gzip 3.06] "curl/8" "-"`,
		"2026-03-05T07:00:01Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a"}},
	{"nginx-json with a duration by the name of a time", NginxJSON, `{"time":0.005,"ts":"2026-03-05T08:00:01Z","remote_addr":"1.2.3.4","status":200}`,
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "1.2.3.4"}},
	{"nginx-json with a time without its date", NginxJSON, `{"date":"2026-03-05","time":"08:00:01","timestamp":"2026-03-05 08:00:01.5 +0100","remote_addr":"1.2.3.4","status":"499"}`,
		"2026-03-05T07:00:01.5Z", map[string]string{"remote_addr": "1.2.3.4", "status": "499"}},
	{"IIS with a field of the header by its own name", W3C, "#Fields: date time s-ip cs-method cs-uri-stem c-ip sc-status X-Forwarded-For\n2026-03-05 08:00:01 10.0.0.4 GET /a 10.0.0.9 200 192.0.2.7",
		"2026-03-05T08:00:01Z", map[string]string{"remote_addr": "10.0.0.9", "header:x-forwarded-for": "192.0.2.7", "x-forwarded-for": "192.0.2.7"}},
	{"haproxy with a Unix socket", HAProxy, `unix:1 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`,
		"2009-02-06T12:14:14.655Z", map[string]string{"remote_addr": "unix:1"}},
	{"caddy, console behind the prefix of compose", Caddy, "web-1  | 2022/03/09 21:30:01.524\tINFO\thttp.log.access.log0\thandled request\t" + `{"request": {"remote_ip": "192.0.2.7", "client_ip": "192.0.2.7", "method": "GET", "uri": "/a", "headers": {}}, "size": 10, "status": 200}`,
		"2022-03-09T21:30:01.524Z", map[string]string{"remote_addr": "192.0.2.7", "path": "/a"}},
	{"W3C with spaces", W3C, "#Fields: date time c-ip cs-username cs-method cs-uri-stem sc-status\n2019-12-04 21:02:31 192.0.2.7 eve GET /a 200",
		"2019-12-04T21:02:31Z", map[string]string{"remote_addr": "192.0.2.7", "user": "eve", "path": "/a"}},
}

// TestMembersOfJSON reads members that are nested, repeated, escaped or no Unicode.
func TestMembersOfJSON(t *testing.T) {
	for _, c := range []struct{ members, name, want string }{
		{`"a":{"b":{"c_d":"x"}}`, "a.B.C-d", "x"},
		{`"a":{"b.c":"x"}`, "a.b.c", "x"},
		{`"a.b":"x"`, "a.b", "x"},
		{`"xa":{"b":"x"}`, "a.b", ""},
		{`"a":{"xb":"x"}`, "a.b", ""},
		{`"a":{"b":"x"}`, "b", ""},
		{`"a":"x","a":"y"`, "a", "x"},
		{`"a":[["v"],{"b":"w"},"x","y"]`, "a.b", "w"},
		{`"a":[{"b":"w"},"x"]`, "a", ""},
		{`"a":["x",{"b":"w"}]`, "a", "x"},
		{`"a":[],"b":{}`, "a", ""},
		{`"a":"\x41\\x42\x0a\xc3\xa9\u00e9"`, "a", "A\\x42\n\u00e9\u00e9"},
		{"\"a\":\"x\xff\"", "a", "x\xff"},
		{`"a":-1.5e3`, "a", "-1.5e3"},
		{`"a":true`, "a", "true"},
		{`"b":-,"c": - ,"d":[-],"e":-1,"f":"\":-,","a":"-,"`, "a", "-,"},
		{`"a":-1,"b":{"c":-}`, "a", "-1"},
		{`"a":null`, "a", ""},
		{`"":{"":"x"}, "a":"y"`, ".", "x"},
		{strings.Repeat(`"a":{`, 2000) + strings.Repeat("}", 2000), "a.a", ""},
		{strings.Repeat(`"b":1,`, maxMembers) + `"a":"x"`, "a", ""},
	} {
		_, got := read(t, `{"ts":1772697601,`+c.members+"}", Options{Format: NginxJSON}, c.name)
		compare(t, c.members, got, map[string]string{c.name: c.want})
	}
}

// TestForwarded reads the addresses that proxies write, of each format that logs them.
func TestForwarded(t *testing.T) {
	clf := ` - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1`
	for _, c := range []struct{ format, line, remote, forwarded string }{
		{"combined", `10.0.0.1` + clf + ` "-" "-"`, "10.0.0.1", ""},
		{"combined", `10.0.0.1` + clf + ` "-" "-" "-"`, "10.0.0.1", ""},
		{"combined", `10.0.0.1` + clf + ` "-" "-" "203.0.113.9, 10.1.1.1"`, "10.0.0.1", "203.0.113.9, 10.1.1.1"},
		{"common", `203.0.113.9, 10.0.0.1` + clf, "10.0.0.1", "203.0.113.9, 10.0.0.1"},
		{"traefik", `203.0.113.9, 2001:db8::1, 10.0.0.1` + clf + ` "-" "-" 1 "-" "-" 3ms`, "10.0.0.1", "203.0.113.9, 2001:db8::1, 10.0.0.1"},
		{"traefik", `{"StartUTC":"2026-03-05T08:00:01Z","ClientAddr":"10.0.0.1:99","ClientHost":"203.0.113.9, 10.1.1.1","DownstreamStatus":200}`, "10.1.1.1", "203.0.113.9, 10.1.1.1"},
		{"traefik", `{"StartUTC":"2026-03-05T08:00:01Z","ClientHost":"203.0.113.9","DownstreamStatus":200}`, "203.0.113.9", ""},
		{"traefik", `{"StartUTC":"2026-03-05T08:00:01Z","ClientHost":"10.0.0.1","request_X-Forwarded-For":"203.0.113.9","DownstreamStatus":200}`, "10.0.0.1", "203.0.113.9"},
		{"envoy", `[2026-03-05T08:00:01.000Z] "GET / HTTP/1.1" 200 - 0 1 1 - "203.0.113.9,10.0.0.1" "-" "-" "a" "-"`, "10.0.0.1", "203.0.113.9,10.0.0.1"},
		{"envoy", `{"start_time":"2026-03-05T08:00:01Z","response_code":200,"downstream_remote_address":"10.0.0.1:9","x_forwarded_for":"203.0.113.9"}`, "10.0.0.1", "203.0.113.9"},
		{"nginx-json", `{"msec":1772697601.000,"remote_addr":"10.0.0.1","http_x_forwarded_for":"203.0.113.9"}`, "10.0.0.1", "203.0.113.9"},
		{"nginx-json", `{"msec":1772697601.000,"remote_addr":"10.0.0.1","x_forwarded_for":"203.0.113.9"}`, "10.0.0.1", "203.0.113.9"},
		{"nginx-json", `{"msec":1772697601.000,"remote_addr":"10.0.0.1","http_x_forwarded_for":"-"}`, "10.0.0.1", ""},
		{"caddy", `{"ts":1772697601.5,"request":{"remote_ip":"10.0.0.1","headers":{"X-Forwarded-For":["203.0.113.9, 10.2.2.2"]}}}`, "10.0.0.1", "203.0.113.9, 10.2.2.2"},
		{"caddy", `{"ts":1772697601.5,"request":{"remote_ip":"10.0.0.1","headers":{"X-Forwarded-For":["203.0.113.9" , "10.2.2.2"]}}}`, "10.0.0.1", "203.0.113.9,10.2.2.2"},
		{"cloudfront", "#Fields: date time c-ip x-forwarded-for\n2026-03-05\t08:00:01\t10.0.0.1\t203.0.113.9", "10.0.0.1", "203.0.113.9"},
	} {
		_, got := read(t, c.line+"\n", Options{Format: Format(c.format)}, "remote_addr")
		compare(t, c.line, got, map[string]string{"remote_addr": c.remote, "forwarded": c.forwarded})
	}
}

// read returns the instant of the only entry of a text and the values of fields, "" for none.
func read(t *testing.T, text string, o Options, names ...string) (at string, values map[string]string) {
	t.Helper()
	var fields []Field
	for _, name := range names {
		field, err := ParseField(name)
		if err != nil {
			t.Fatal(err)
		}
		fields = append(fields, field)
	}
	o.Stdin = strings.NewReader(text)
	r, err := Open([]string{"-"}, o)
	if err != nil {
		t.Fatal(err)
	}
	values = map[string]string{}
	for e, err := range r.Entries(append(fields, Forwarded)...) {
		must.Do(t, err)
		at = time.UnixMicro(e.At).UTC().Format(time.RFC3339Nano)
		for i, f := range append(fields, Forwarded) {
			if v, ok := e.Get(f); ok {
				values[append(names, "forwarded")[i]] = string(v)
			}
		}
	}
	if at == "" {
		t.Fatalf("%.200q has no entry: %+v", text, r.Stats())
	}
	return at, values
}

// compare compares the values of fields; a field with the value "" must be absent.
func compare(t *testing.T, line string, got, want map[string]string) {
	t.Helper()
	for name, want := range want {
		if v, ok := got[name]; v != want || ok != (want != "") {
			t.Errorf("%.200s\n%s: got %q, %v; want %q", line, name, v, ok, want)
		}
	}
}

func TestFieldsOfEveryFormat(t *testing.T) {
	for _, format := range formats {
		if !slices.ContainsFunc(examples, func(x example) bool { return x.format == format }) {
			t.Errorf("examples has no line of %s", format)
		}
	}
	for _, x := range examples {
		if got, err := detect([]byte(x.text), Options{}); got != x.format || err != nil {
			t.Errorf("%s: detected as %q, %v; want %q", x.name, got, err, x.format)
		}
		for _, format := range []Format{Auto, x.format} {
			at, got := read(t, x.text+"\n", Options{Format: format}, slices.Collect(maps.Keys(x.want))...)
			if compare(t, x.name, got, x.want); at != x.at {
				t.Errorf("%s: the time is %s, want %s", x.name, at, x.at)
			}
		}
	}
	if _, err := ParseField(""); err == nil {
		t.Error("a field without a name: no error")
	}
}

func TestDetection(t *testing.T) {
	combined := `10.0.0.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1 "-" "-"` + "\n"
	common := `10.0.0.1 - - [05/Mar/2026:08:00:01 +0000] "GET / HTTP/1.1" 200 1` + "\n"
	for text, want := range map[string]string{ // the format, or a part of the error
		`{"trace":1,"sample":10,"keys":"hashed","dropped":0}` + "\n": "jsonl",
		"\n" + `{"at_us":1,"policy":"x"}` + "\n":                     "jsonl",
		"garbage\n" + combined:                                       "combined", // that of most lines
		common + common + combined:                                   "common",
		combined + common + combined:                                 "combined",
		"\x7fELF\x00\n" + common:                                     "common",
		"":                                                           "no lines",
		" \n\n":                                                      "no lines",
		"hello\nworld\n":                                             `no format fits the first line, "hello"`,
		"192.0.2.1 GET /a 200":                                       `"192.0.2.1 GET /a 200", which has no time; name one with --format`,
		"[10/Oct/2000:13:55:36 -0700] GET /a":                        "which has no address of a client and no status;",
		"ip,time,path":                                               "which has no time and no address of a client and no status;",
		"\x7fELF\x00\x01":                                            "binary",
		`{"a":1}`:                                                    "the objects have no time by a known name; map the name of its member with --field time=NAME",
		`{"a":1,"requestTime":"05/Mar/2026:08:00:01 +0000"}`:                                           "--field time=requestTime",
		"2026-03-05 08:00:01,123 INFO shop.views request from user ann took 12 ms and returned 200 OK": "no format fits the first line, \"2026-03-05 08:00:01,123 INFO shop.views request from user ann to…\", which has no address of a client;",
		`{"ts":1772697601,"level":"info","msg":"started"}`:                                             "1 of the first 1 lines have a time, and none has an address as its client or a status of three digits; the first line is \"{\\\"ts\\\"",
		`time=2026-03-05T08:00:01Z level=WARN msg="wrong password" client_ip=192.0.2.7 username=ann`:   "none has an address as its client or a status",
		`time=2026-03-05T08:00:01Z level=INFO msg="done" client_ip=192.0.2.7 method=GET path=/a`:       "logfmt",
		// of Authelia and xrdp
		`time="2026-03-05T08:00:01Z" level=error msg="Unsuccessful 1FA authentication attempt by user 'ann'" method=POST path=/api/firstfactor remote_ip=192.0.2.7`: "none has an address as its client or a status",
		`{"level":"error","method":"POST","msg":"Unsuccessful TOTP authentication attempt","path":"/api/totp","remote_ip":"192.0.2.7","time":1772697601}`:           "none has an address as its client or a status",
		`[20260305-08:00:01] [INFO ] AUTHFAIL: user=ann ip=::ffff:192.0.2.7 time=1772697601`:                                                                        "none has an address as its client or a status",
		`{"level":"error","method":"POST","path":"/a","remote_ip":"192.0.2.7","time":1772697601,"status":502}`:                                                      "nginx-json",
		`time=1772697601 ip=192.0.2.7 path=/a`: "logfmt",
		combined + common:                      "1 of the first 2 lines have the format combined, and as many common; name one with --format",
		`{"ts":1772697601,"level":"info","msg":"started"}` + "\n" + combined: "combined",
		"\xff\xfe1\x009\x002\x00":                "the file is UTF-16; convert it",
		"1\x009\x002\x00.\x00\n\x00":             "the file is UTF-16; convert it",
		`{"time":"2026-03-05T08:00:01"}` + "\nx": "1 of the first 2 lines have a time, and none a zone",
		`{"remote_addr":"1"}`:                    "the objects have no time by a known name",
	} {
		if got, err := detect([]byte(text), Options{}); string(got) != want && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestMappedFields(t *testing.T) {
	const object = `{"when":"2026-03-05T08:00:01Z","net":{"peer":"192.0.2.1:99"},"remote_addr":"10.0.0.1","url":"/a?b","tenant":"t1"}`
	alb := examples[slices.IndexFunc(examples, func(x example) bool { return x.name == "alb" })]
	for _, c := range []struct {
		line         string
		fields, want map[string]string
		at           string // "" = not compared
	}{
		{object, map[string]string{"time": "when", "remote_addr": "net.peer", "user": "tenant"},
			map[string]string{"remote_addr": "192.0.2.1", "user": "t1", "path": "/a"}, "2026-03-05T08:00:01Z"},
		{`{"ts":1772697601,"net.peer":"192.0.2.1","remote_addr":"10.0.0.1"}`, map[string]string{"remote_addr": "net.peer"}, map[string]string{"remote_addr": "192.0.2.1"}, ""},
		{`{"ts":1772697601,"remote_addr":"10.0.0.1","status":200}`, map[string]string{"remote_addr": "net.peer"}, map[string]string{"remote_addr": ""}, ""},
		{lineAt(1, "a"), map[string]string{"remote_addr": "referer"}, map[string]string{"remote_addr": ""}, ""},
		{lineAt(1, "a"), map[string]string{"remote_addr": "request"}, map[string]string{"remote_addr": `GET /a HTTP/1.1`}, ""},
		{lineAt(1, "a"), map[string]string{"remote_addr": "none"}, map[string]string{"remote_addr": ""}, ""},
		{"#Version: 1.0\n#Fields: date time c-ip s-ip\n2019-12-04\t21:02:31\t10.0.0.1\t192.0.2.1", map[string]string{"remote_addr": "s-ip"}, map[string]string{"remote_addr": "192.0.2.1"}, ""},
		{alb.text, map[string]string{"time": "request_creation_time", "host": "domain_name"}, map[string]string{"host": "www.example.com"}, "2018-07-02T22:22:48.364Z"},
	} {
		at, got := read(t, c.line, Options{Fields: c.fields}, slices.Collect(maps.Keys(c.want))...)
		if compare(t, c.line, got, c.want); c.at != "" && at != c.at {
			t.Errorf("%s: the time is %s, want %s", c.line, at, c.at)
		}
	}
}

func TestAddressesHaveNoPort(t *testing.T) {
	r := &row{}
	for _, c := range []struct {
		convert    conversion
		text, want string
	}{
		{lastAddress, "192.0.2.1", "192.0.2.1"}, {lastAddress, "192.0.2.1:80", "192.0.2.1"}, {lastAddress, "2001:db8::1", "2001:db8::1"},
		{lastAddress, "[2001:db8::1]:80", "2001:db8::1"}, {lastAddress, "[2001:db8::1]", "2001:db8::1"}, {lastAddress, "", ""}, {lastAddress, "[", "["},
		{beforePort, "192.0.2.1:80", "192.0.2.1"}, {beforePort, "2001:db8::1:80", "2001:db8::1"}, {beforePort, "[2001:db8::1]:80", "2001:db8::1"}, {beforePort, "-", "-"},
		{lastAddress, "192.0.2.1, 2001:db8::1", "2001:db8::1"}, {lastAddress, "192.0.2.1,192.0.2.2:80", "192.0.2.2"},
	} {
		if got := c.convert(r, []byte(c.text)); string(got) != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestInstants(t *testing.T) {
	for text, want := range map[string]string{
		"2026-03-05T08:00:01Z":             "2026-03-05T08:00:01Z",
		"2026-03-05T08:00:01.1234567-0330": "2026-03-05T11:30:01.123456Z",
		"2026-03-05 08:00:01+02":           "2026-03-05T06:00:01Z",
		"2026-03-05 08:00:01 +0100":        "2026-03-05T07:00:01Z",
		"2026-03-05 08:00:01.5 -03:30":     "2026-03-05T11:30:01.5Z",
		"2026-03-05 08:00:01 UTC":          "2026-03-05T08:00:01Z",
		"2026-03-05 08:00:01 CET":          errTime.Error(),
		"05/Mar/2026:08:00:01 -03:30":      "2026-03-05T11:30:01Z",
		"05/Mar/2026 08:00:01":             errNoZone.Error(), // of Werkzeug
		"29/Feb/2024:23:59:59.5 +0000":     "2024-02-29T23:59:59.5Z",
		"29/Feb/2024:23:59:59Z":            "2024-02-29T23:59:59Z",
		"2026-03-05 08:00:01,25-03:30":     "2026-03-05T11:30:01.25Z",
		"1772697601":                       "2026-03-05T08:00:01Z",
		"1772697601.25":                    "2026-03-05T08:00:01.25Z",
		"1772697601123":                    "2026-03-05T08:00:01.123Z",
		"1772697601123456":                 "2026-03-05T08:00:01.123456Z",
		"1772697601123456789":              "2026-03-05T08:00:01.123456Z",
		"1772697601123.5":                  "2026-03-05T08:00:01.1235Z",
		"1.772697601e9":                    errTime.Error(),
		"1h":                               errTime.Error(),
		"2026-03-05T08:00:01":              errNoZone.Error(),
		"2026/03/05 08:00:01.123":          errNoZone.Error(),
		"05/Mar/2026:08:00:01":             errNoZone.Error(),
		"1969-12-31T23:59:59Z":             errRange.Error(),
		"9999-01-01T00:00:00Z":             errRange.Error(),
		"29/Feb/2023:00:00:00 +0000":       errTime.Error(),
		"2026-13-05T08:00:01Z":             errTime.Error(),
		"2026-03-05T24:00:01Z":             errTime.Error(),
		"2016-12-31T23:59:60Z":             "2016-12-31T23:59:59Z", // a leap second
		"2017-01-01T02:59:60.5+03:00":      "2016-12-31T23:59:59.5Z",
		"31/Dec/2016:23:59:60 +0000":       "2016-12-31T23:59:59Z",
		"2016-12-31T23:58:60Z":             errTime.Error(),
		"2016-12-31T23:60:00Z":             errTime.Error(),
		"2016-12-31T23:59:61Z":             errTime.Error(),
		"2016-12-31T23:59:60":              errNoZone.Error(),
		"-5":                               errRange.Error(),
		"99999999999":                      errRange.Error(),
		"1.2.3":                            errTime.Error(),
		".":                                errTime.Error(),
		"5-3":                              errTime.Error(),
		"":                                 errTime.Error(),
		"12345678901234567890":             errRange.Error(),
	} {
		at, err := parseInstant([]byte(text))
		got := time.UnixMicro(at).UTC().Format(time.RFC3339Nano)
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

// FuzzLine searches for a line that makes a parser panic, or that a field cannot be read
// of.
func FuzzLine(f *testing.F) {
	var fields []Field
	for _, name := range append(FieldNames(), "header:x-user", "header:user-agent", "request.tls.version", "a.b") {
		field, _ := ParseField(name)
		fields = append(fields, field)
	}
	for _, x := range examples {
		f.Add([]byte(x.text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		detect(text, Options{})
		for _, format := range formats {
			r, err := Open([]string{"-"}, Options{Format: format, Stdin: strings.NewReader(string(text))})
			if err != nil {
				continue // compressed data that are damaged
			}
			for e, err := range r.Entries(fields...) {
				if err != nil {
					break
				}
				if e.At < 0 || e.At > weir.MaxInstant {
					t.Fatalf("%s, %q: the instant %d", format, text, e.At)
				}
			}
			r.Close()
		}
	})
}

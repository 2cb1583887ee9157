package replay

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/spec"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/race"
	"github.com/weirlimit/weir/policy"
)

// request is one line of a random log.
type request struct {
	at          time.Time
	ip          string // as written
	client      string // as counted
	path, query string
	agent       string // "" = none
	status      int
	bytes       int64
}

// logWriter writes requests in one format. It shares no code with package accesslog.
type logWriter struct {
	name      string
	format    accesslog.Format
	precision time.Duration
	head      string
	line      func(q *request) string
}

const clfTime = "02/Jan/2006:15:04:05 -0700"

var zones = []*time.Location{time.UTC, time.FixedZone("", 19800), time.FixedZone("", -12600)}

// logWriters returns a writer of each way to split a line: quotes and spaces, JSON that is flat
// and nested, a port at the client, and tabs. Some choose among notations at random. The
// examples of package accesslog have the other formats.
func logWriters(r *rand.Rand) []logWriter {
	zone := zones[r.IntN(len(zones))]
	dash := func(s string) string { return cmp.Or(s, "-") }
	apache := func(s string) string { return strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(dash(s)) }
	nginx := func(s string) string { return strings.NewReplacer(`\`, `\x5C`, `"`, `\x22`).Replace(dash(s)) }
	quote := [](func(string) string){apache, nginx}[r.IntN(2)]
	object := func(members ...any) string {
		r.Shuffle(len(members)/2, func(i, j int) {
			members[2*i], members[2*j] = members[2*j], members[2*i]
			members[2*i+1], members[2*j+1] = members[2*j+1], members[2*i+1]
		})
		var b strings.Builder
		for i := 0; i < len(members); i += 2 {
			v, _ := json.Marshal(members[i+1])
			fmt.Fprintf(&b, `,%q:%s`, members[i], v)
		}
		return "{" + b.String()[1:] + "}"
	}
	port := func(ip string) string {
		if strings.Contains(ip, ":") {
			return "[" + ip + "]:4711"
		}
		return ip + ":4711"
	}
	clfOf := func(ip string, q *request) string {
		return fmt.Sprintf(`%s - %s [%s] "GET %s%s HTTP/1.1" %d %d`, ip, []string{"-", "ann", "ann lee"}[r.IntN(3)],
			q.at.In(zone).Format(clfTime), q.path, q.query, q.status, q.bytes)
	}
	nginxTime := r.IntN(4)
	caddyTime := r.IntN(5)
	columns := strings.Fields("date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query x-forwarded-for")
	if r.IntN(2) == 0 {
		r.Shuffle(len(columns), func(i, j int) { columns[i], columns[j] = columns[j], columns[i] })
	}
	return []logWriter{
		{"combined with forwarded", accesslog.Combined, time.Second, "", func(q *request) string {
			return clfOf("10.0.0.1", q) + fmt.Sprintf(` "-" "%s" "forged, 198.51.100.7, %s, 10.2.3.4"`, quote(q.agent), q.ip)
		}},
		{"nginx JSON", accesslog.NginxJSON, []time.Duration{time.Second, time.Millisecond, time.Millisecond, time.Second}[nginxTime], "", func(q *request) string {
			at := []any{"time_iso8601", q.at.In(zone).Format(time.RFC3339),
				"msec", json.RawMessage(fmt.Sprintf("%d.%03d", q.at.Unix(), q.at.Nanosecond()/1e6)),
				"msec", fmt.Sprintf("%d.%03d", q.at.Unix(), q.at.Nanosecond()/1e6),
				"time_local", q.at.In(zone).Format(clfTime)}[2*nginxTime:][:2]
			status := []any{q.status, strconv.Itoa(q.status)}[r.IntN(2)]
			if r.IntN(2) == 0 {
				return object(append(at, "remote_addr", q.ip, "request", "GET "+q.path+q.query+" HTTP/2.0", "status", status, "body_bytes_sent", q.bytes, "http_user_agent", q.agent)...)
			}
			return object(append(at, "remote_addr", q.ip, "request_method", "GET", "request_uri", q.path+q.query, "status", status, "body_bytes_sent", strconv.FormatInt(q.bytes, 10), "http_user_agent", dash(q.agent))...)
		}},
		{"caddy", accesslog.Caddy, []time.Duration{time.Millisecond, time.Millisecond, time.Microsecond, time.Second, time.Microsecond}[caddyTime], "", func(q *request) string {
			ts := []any{
				float64(q.at.UnixMilli()) / 1e3,
				q.at.In(zone).Format("2006-01-02T15:04:05.000Z0700"),
				q.at.In(zone).Format(time.RFC3339Nano),
				q.at.In(zone).Format(clfTime),
				q.at.UnixNano(),
			}[caddyTime]
			headers := map[string][]string{"Accept": {"*/*", "a"}, "X-Forwarded-For": [][]string{{"forged", q.ip}, {q.ip}, {"198.51.100.7, " + q.ip, "10.3.4.5"}}[r.IntN(3)]}
			if q.agent != "" {
				headers["User-Agent"] = []string{q.agent}
			}
			in := map[string]any{"remote_ip": "10.0.0.1", "remote_port": "4711", "client_ip": "10.0.0.1", "method": "GET", "host": "localhost", "uri": q.path + q.query, "headers": headers}
			return object("level", "info", "ts", ts, "logger", "http.log.access", "msg", "handled request", "request", in, "user_id", "", "size", q.bytes, "status", q.status)
		}},
		{"alb", accesslog.ALB, time.Microsecond, "", func(q *request) string {
			client := port(q.ip)
			if r.IntN(2) == 0 {
				client = q.ip + ":4711"
			}
			return fmt.Sprintf(`h2 %s app/lb/50dc %s 10.0.0.1:80 0.086 0.048 0.037 %d 200 0 %d "GET https://www.example.com:443%s%s HTTP/2.0" "%s" ECDHE-RSA TLSv1.2 arn:aws:x "Root=1-58" "-" "-" 0 %s "waf,forward" "-" "-" "10.0.0.1:80" "200" "-" "-"`,
				q.at.UTC().Format("2006-01-02T15:04:05.000000Z"), client, q.status, q.bytes, q.path, q.query, apache(q.agent), q.at.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z"))
		}},
		{"cloudfront", accesslog.CloudFront, time.Second, "#Version: 1.0\n#Fields: " + strings.Join(columns, " ") + "\n", func(q *request) string {
			values := map[string]string{"date": q.at.UTC().Format(time.DateOnly), "time": q.at.UTC().Format(time.TimeOnly), "c-ip": q.ip, "sc-bytes": strconv.FormatInt(q.bytes, 10),
				"cs-method": "GET", "cs-uri-stem": q.path, "cs-uri-query": dash(strings.TrimPrefix(q.query, "?")), "sc-status": strconv.Itoa(q.status),
				"cs(User-Agent)": dash(strings.NewReplacer("%", "%25", " ", "%20", `"`, "%22", `\`, "%5C").Replace(q.agent))}
			var line []string
			for _, name := range columns {
				line = append(line, dash(values[name]))
			}
			return strings.Join(line, "\t")
		}},
	}
}

// diffPolicies are policies of many kinds.
const diffPolicies = `
version: 1
policies:
  one: {limit: %d per %ds per ip}
  apart: {limit: "%d per minute per ip, 2s apart"}
  pages: {limits: {page: %d per 10s per path, both: %d per 20s per ip per path, all: 40 per 7s}}
  agents: {limit: "%d per 30s per agent", denied: counted}
  fixed: {limit: "%d per minute per ip, fixed"}
  bucket: {limit: "1 per 2s per ip, burst %d"}
  held: {limit: "%d at once per ip, for at most 5s", shadow: true}
  egress: {limit: "%d bytes per 10s per ip", batch: partial}
`

// TestLogsAgreeWithTheSpecification writes random requests of ordinary clients and of
// scripts in several formats, in several files whose lines are slightly out of order, and
// decides them a second time by the specification.
func TestLogsAgreeWithTheSpecification(t *testing.T) {
	seeds := uint64(race.Fewer(12))
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		for i := range logWriters(rand.New(rand.NewPCG(seed, 1))) {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			compareLog(t, r, logWriters(r)[i], fmt.Sprintf("seed %d, %s", seed, logWriters(r)[i].name))
		}
	}
}

func compareLog(t *testing.T, r *rand.Rand, w logWriter, name string) {
	t.Helper()
	files, requests, bad := randomLog(t, r, w)
	n := func(most int) int { return 1 + r.IntN(most) }
	text := fmt.Sprintf(diffPolicies, n(6), n(60), n(9), n(9), n(4), n(30), n(9), n(5), n(4), 500+r.IntN(9000))
	f, err := policy.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	o := LogOptions{Keys: keysOf(t, "ip=remote_addr", "path=path", "agent=user_agent"), Units: LogUnits{N: 1 + r.Int64N(2), Bytes: r.IntN(2) == 0},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	if r.IntN(3) == 0 {
		o.Where = whereOf(t, "status=4*")
	}
	runner, err := NewLogRunner(f, weir.NewMemory(), o)
	if err != nil {
		t.Fatal(err)
	}
	format := accesslog.Auto
	if r.IntN(2) == 0 {
		format = w.format
	}
	in, err := accesslog.Open(files, accesslog.Options{Format: format, Reorder: accesslog.DefaultReorder})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	got, err := runner.Run(in)
	if err != nil {
		t.Fatalf("%s: %v; %+v", name, err, got.Log.First)
	}
	if got.Log.Bad != bad || got.Log.Late != 0 {
		t.Errorf("%s: %d bad lines and %d late ones, want %d and 0; %v", name, got.Log.Bad, got.Log.Late, bad, got.Log.First)
	}
	compareSummary(t, name, &got, f, requests, o)
}

// randomLog writes files and returns their requests in the order of decisions.
func randomLog(t *testing.T, r *rand.Rand, w logWriter) (files []string, requests []request, bad int64) {
	t.Helper()
	agents := []string{"", "curl/8", `quo"ted`, `back\slash`, "Mozilla/5.0 (X11; Linux)", "100%"}
	start := time.Unix(1772697600+r.Int64N(1e6), 0)
	for i := range 1 + r.IntN(3) {
		var b bytes.Buffer
		b.WriteString(w.head)
		end := []string{"\n", "\r\n"}[r.IntN(2)]
		at := start.Add(time.Duration(r.IntN(20)) * time.Second)
		for range 300 {
			at = at.Add(time.Duration(r.Int64N(int64(800 * time.Millisecond))))
			q := request{at: at.Add(time.Duration(r.Int64N(int64(4 * time.Second)))).Truncate(w.precision), query: []string{"", "?q=%20x&y"}[r.IntN(2)],
				path: []string{"/", "/search", "/api/v1", "/a%20b"}[r.IntN(4)], agent: agents[r.IntN(len(agents))], status: []int{200, 404, 429, 500}[r.IntN(4)], bytes: r.Int64N(3000)}
			switch r.IntN(4) {
			case 0: // a script
				q.ip, q.client = "203.0.113.9", "203.0.113.9"
			case 1:
				q.ip = fmt.Sprintf("2001:db8:0:%d::%x", r.IntN(4), r.IntN(1000)+1)
				p, _ := netip.MustParseAddr(q.ip).Prefix(64)
				q.client = p.String()
			default:
				q.ip = fmt.Sprintf("198.51.100.%d", r.IntN(30))
				q.client = q.ip
			}
			requests = append(requests, q)
			b.WriteString(w.line(&q) + end)
			switch r.IntN(60) {
			case 0:
				b.WriteString(end)
			case 1:
				b.WriteString("cut off" + end)
				bad++
			}
		}
		name := filepath.Join(t.TempDir(), fmt.Sprintf("access.log.%d", i))
		must.Do(t, os.WriteFile(name, packed(t, r, b.Bytes()), 0o600))
		files = append(files, name)
	}
	slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	return files, requests, bad
}

// packed returns text as it is, or compressed in two members.
func packed(t *testing.T, r *rand.Rand, text []byte) []byte {
	t.Helper()
	cut := r.IntN(len(text))
	switch r.IntN(3) {
	case 0:
		var b bytes.Buffer
		for _, part := range [][]byte{text[:cut], text[cut:]} {
			z := gzip.NewWriter(&b)
			z.Write(part)
			z.Close()
		}
		return b.Bytes()
	case 1:
		z, err := zstd.NewWriter(nil)
		if err != nil {
			t.Fatal(err)
		}
		return z.EncodeAll(text[cut:], z.EncodeAll(text[:cut], nil))
	}
	return text
}

// compareSummary decides the requests by the specification.
func compareSummary(t *testing.T, name string, got *LogSummary, f *policy.File, requests []request, o LogOptions) {
	t.Helper()
	for _, p := range got.Policies {
		d := f.Definition(p.Policy)
		limiter, err := weir.New(weir.Policy{Name: d.Name, Mode: d.Mode, Limits: d.Limits, Dimensions: d.Dimensions()}, weir.WithEngine(spec.New()))
		if err != nil {
			t.Fatal(err)
		}
		var want LogDecisions
		keys, limits := map[string]*LogKeySummary{}, map[string]int64{}
		for i := range requests {
			q := &requests[i]
			if len(o.Where) > 0 && q.status/100 != 4 {
				continue
			}
			var values []string
			var key []byte
			logged := map[string]string{"ip": q.client, "path": q.path, "agent": q.agent}
			for _, d := range limiter.Compiled().Dimensions {
				values = append(values, logged[d])
				key = keyenc.Append(key, values[len(values)-1])
			}
			if slices.Contains(values, "") {
				continue
			}
			n := o.Units.N
			if o.Units.Bytes {
				n = q.bytes
			}
			d, err := limiter.At(q.at).AllowN(t.Context(), weir.K(values...), n)
			if err != nil {
				t.Fatal(err)
			}
			k := keys[string(key)]
			if k == nil {
				k = &LogKeySummary{Key: named(limiter.Compiled().Dimensions, string(key))}
				keys[string(key)] = k
				want.Keys++
			}
			if d.Allowed {
				want.Allowed++
				k.Allowed++
				continue
			}
			if k.Denied == 0 {
				k.FirstDenied = q.at.UTC()
				want.KeysDenied++
			}
			want.Denied++
			k.Denied++
			limits[d.Limit]++
		}
		top := []LogKeySummary{}
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if keys[key].Denied > 0 {
				top = append(top, *keys[key])
			}
		}
		slices.SortStableFunc(top, func(a, b LogKeySummary) int {
			return cmp.Or(cmp.Compare(b.Denied, a.Denied), a.FirstDenied.Compare(b.FirstDenied))
		})
		if p.LogDecisions != want {
			t.Errorf("%s, policy %s: got %+v, want %+v", name, p.Policy, p.LogDecisions, want)
		}
		if top = top[:min(len(top), MaxTop)]; !reflect.DeepEqual(p.Top, top) {
			t.Errorf("%s, policy %s: got %+v, want %+v", name, p.Policy, p.Top, top)
		}
		for _, l := range p.Limits {
			if l.Denied != limits[l.Limit] {
				t.Errorf("%s, policy %s, limit %s: got %d denied, want %d", name, p.Policy, l.Limit, l.Denied, limits[l.Limit])
			}
		}
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
	"github.com/weirlimit/weir/internal/testkit/program"
)

const (
	watchMethod   = "/grpc.health.v1.Health/Watch"
	limitMethod   = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
	strangerToken = "the-token-of-honest-callers"

	// maxResident bounds the resident memory of a server under attack. memoryLimit makes the
	// garbage collector run often enough, also if it is scheduled late.
	maxResident = 100 << 20
	memoryLimit = "GOMEMLIMIT=64MiB"

	// maxResidentOpen bounds the memory under calls that never end, on a server without a token.
	// There each connection may take four times as much (docs/service.md).
	maxResidentOpen = 200 << 20

	// maxStrangers is the number of connections without a complete authorized call.
	maxStrangers = 256
)

// mostResident returns the peak of the resident memory of the process, in bytes.
func (p *process) mostResident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, peak, _ := strings.Cut(string(text), "\nVmHWM:")
	n, err := strconv.ParseInt(strings.Fields(peak)[0], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// raw is an HTTP/2 connection that sends arbitrary frames and discards the answers.
type raw struct {
	net.Conn
	frames *http2.Framer
	text   bytes.Buffer
	fields *hpack.Encoder
	stream uint32        // id of the newest stream
	gone   chan struct{} // closed when the server has closed the connection
}

func dialRaw(t *testing.T, address string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{Conn: c, frames: http2.NewFramer(c, nil), stream: ^uint32(0), gone: make(chan struct{})}
	r.fields = hpack.NewEncoder(&r.text)
	t.Cleanup(func() { c.Close() })
	io.WriteString(c, http2.ClientPreface)
	r.frames.WriteSettings()
	go func() {
		defer close(r.gone)
		io.Copy(io.Discard, c)
	}()
	return r
}

// header encodes the header list of a call. more are further names and values.
func (r *raw) header(method string, more ...string) []byte {
	r.text.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", method, ":authority", "x",
		"content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(fields); i += 2 {
		r.fields.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return r.text.Bytes()
}

// call starts a call on a new stream.
func (r *raw) call(method string, more ...string) error {
	block := r.header(method, more...)
	r.stream += 2
	return r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: r.stream, BlockFragment: block, EndHeaders: true})
}

// message sends the first bytes of a message of the newest call. If they are the whole message,
// it ends the stream.
func (r *raw) message(size int, first []byte) error {
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(size)), first...)
	for len(data) > 16<<10 {
		if err := r.frames.WriteData(r.stream, false, data[:16<<10]); err != nil {
			return err
		}
		data = data[16<<10:]
	}
	return r.frames.WriteData(r.stream, len(first) == size, data)
}

// bomb sends a header block of half a megabyte that unpacks to 16 MiB. It refers to one entry
// of the dynamic table again and again.
func (r *raw) bomb() error {
	block := append([]byte{}, r.header(limitMethod)...)
	block = append(block, 0x40, 1, 'a', 0) // the field a: "", added to the dynamic table
	block = append(block, bytes.Repeat([]byte{0x80 | 62}, 500_000)...)
	r.stream += 2
	err := r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: r.stream, BlockFragment: block[:16<<10]})
	for block = block[16<<10:]; err == nil && len(block) > 0; {
		n := min(len(block), 16<<10)
		err = r.frames.WriteContinuation(r.stream, n == len(block), block[:n])
		block = block[n:]
	}
	return err
}

// duringAttacks runs attacks concurrently. Meanwhile an honest caller must get every answer,
// and the resident memory must stay below a bound in bytes.
func (f *fronts) duringAttacks(t *testing.T, bound int64, attacks ...func(t *testing.T, address string)) {
	t.Helper()
	var running sync.WaitGroup
	for _, attack := range attacks {
		running.Go(func() { attack(t, f.rpc) })
	}
	over := make(chan struct{})
	go func() {
		running.Wait()
		close(over)
	}()
	honest := 0
	for done := false; !done; honest++ {
		select {
		case <-over:
			done = true
		default:
		}
		if err := f.callHonestly(t); err != nil {
			t.Errorf("honest call %d: %v; stderr of weir:\n%s", honest+1, err, f.Output())
			break
		}
	}
	<-over
	most := f.mostResident(t)
	t.Logf("%d honest calls, at most %d MiB resident", honest, most>>20)
	if most >= bound {
		t.Errorf("%d MiB resident; want less than %d", most>>20, bound>>20)
	}
}

// callHonestly makes one call with the token.
func (f *fronts) callHonestly(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+strangerToken)
	_, err := pb.NewRateLimitServiceClient(f.grpc).ShouldRateLimit(ctx, requestOf("honest", "1"))
	return err
}

const watchers = 10 // connections of openWatches

// openWatches opens 1,000 health watches. Half of them are for existing services, the others
// for unknown services with long names.
func openWatches(t *testing.T, address string) {
	for i := range watchers {
		r := dialRaw(t, address)
		for j := range 1000 / watchers {
			name := ""
			if j%2 == 0 {
				name = strings.Repeat(strconv.Itoa(i*1000+j)+".", 10_000)
			}
			text := append(binary.AppendUvarint([]byte{1<<3 | 2}, uint64(len(name))), name...)
			if r.call(watchMethod) != nil || r.message(len(text), text) != nil {
				break // the server has closed the connection
			}
		}
	}
}

// sendHeaderBombs floods 16 connections with header blocks that unpack to many megabytes.
func sendHeaderBombs(t *testing.T, address string) {
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 5 {
				r := dialRaw(t, address)
				for range 50 {
					if r.bomb() != nil {
						break
					}
				}
				r.Close()
			}
		})
	}
	all.Wait()
}

// sendHalfMessages sends 10,000 incomplete messages on ten connections. It reopens connections
// that the server closes.
func sendHalfMessages(size int) func(t *testing.T, address string) {
	return func(t *testing.T, address string) {
		var all sync.WaitGroup
		half := make([]byte, size)
		for range 10 {
			all.Go(func() {
				r := dialRaw(t, address)
				for range 1000 {
					if r.call(limitMethod) != nil || r.message(size+1, half) != nil {
						r = dialRaw(t, address)
					}
				}
			})
		}
		all.Wait()
	}
}

// sendPartialHeaders opens connections with an incomplete HEADERS frame. The server must close
// the oldest for newer ones, so that at most maxStrangers stay.
func sendPartialHeaders(t *testing.T, address string) {
	const n = 2 * maxStrangers
	var all []*raw
	for range n {
		r := dialRaw(t, address)
		r.stream += 2
		r.frames.WriteHeaders(http2.HeadersFrameParam{StreamID: r.stream, BlockFragment: r.header(limitMethod)})
		all = append(all, r)
	}
	for i, r := range all[:n-maxStrangers] {
		select {
		case <-r.gone:
		case <-time.After(testTimeout):
			t.Errorf("partial header %d of %d stays", i+1, n)
			return
		}
	}
}

// sendLongDeadlines makes calls with long deadlines on 200 connections, which stay open. gRPC
// has a timer for each call.
func sendLongDeadlines(t *testing.T, address string) {
	for range 200 {
		r := dialRaw(t, address)
		for range 20 {
			if r.call(limitMethod, "grpc-timeout", "90H") != nil {
				break
			}
		}
	}
}

// openAttacked starts weir serve with a bound on its memory. It runs without the race detector,
// whose memory would count. token is the token of honest callers, or "" if none is required.
func openAttacked(t *testing.T, token string, args ...string) *fronts {
	t.Helper()
	needs.Have(t, "resident memory in /proc", runtime.GOOS == "linux", "run the test on Linux")
	weir := exec.Command(program.Path(t))
	if weir.Env = []string{memoryLimit}; token != "" {
		weir.Env = append(weir.Env, "WEIR_TOKEN="+token)
	}
	return openFrontsWith(t, weir, args...)
}

// sendSingleBytes sends messages byte by byte and completes none.
func sendSingleBytes(t *testing.T, address string) {
	for range 5 {
		r := dialRaw(t, address)
		for range 200 {
			if r.call(limitMethod) != nil || r.message(1000, nil) != nil {
				break
			}
			for range 100 {
				r.frames.WriteData(r.stream, false, []byte{1})
			}
		}
	}
}

// TestStrangersEndNoHonestCall: unauthenticated connections end no honest call and take little
// memory. The server closes the oldest of them first, and counts and logs each end. It counts
// calls without a token.
func TestStrangersEndNoHonestCall(t *testing.T) {
	t.Parallel()
	for _, token := range []string{"", strangerToken} {
		f := openAttacked(t, token)
		// Until its first call is complete, the honest caller is a stranger itself.
		must.Do(t, f.callHonestly(t))
		endless := int64(maxResident)
		if token == "" {
			endless = maxResidentOpen
		}
		// At the end of the subtest the unauthenticated connections are closed.
		t.Run("token "+token, func(t *testing.T) {
			f.duringAttacks(t, maxResident, sendPartialHeaders)
			f.duringAttacks(t, maxResident, sendHalfMessages(60<<10), sendHalfMessages(0), sendHeaderBombs)
			if n := metric(t, f.Admin, `weir_connections{listener="grpc"}`); n > maxStrangers+1 {
				t.Errorf("%d connections are open; want %d at most", n, maxStrangers+1)
			}
			f.duringAttacks(t, endless, sendLongDeadlines, openWatches, sendSingleBytes)
			if n := metric(t, f.Admin, `weir_closed_connections_total{listener="grpc"}`); n < maxStrangers {
				t.Errorf("%d closings are counted; want %d at least", n, maxStrangers)
			}
			f.awaitOutput(t, "a newer connection needed the slot")
			admitted := 1 // the honest caller
			if token == "" {
				admitted += watchers // a health watch is a complete call
			}
			if n := metric(t, f.Admin, `weir_connections{listener="grpc"}`); n > int64(maxStrangers+admitted) {
				t.Errorf("%d connections are open; want %d at most", n, maxStrangers+admitted)
			}
		})
		if token == "" {
			continue
		}
		must.Await(t, "the end of the attackers' connections", func() bool { return metric(t, f.Admin, `weir_connections{listener="grpc"}`) == 1 })
		// Calls that the server has received may be counted a little after the end of their connection.
		before := int64(-1)
		must.Await(t, "the count of all calls of the attack", func() bool {
			last := before
			before = metric(t, f.Admin, "weir_unauthorized_requests_total")
			return before == last
		})
		if before < 100 {
			t.Errorf("%d unauthorized requests counted; want those of the attack", before)
		}
		r := dialRaw(t, f.rpc)
		for range 100 {
			must.Do(t, r.call(limitMethod))
		}
		must.Await(t, "100 more unauthorized requests", func() bool { return metric(t, f.Admin, "weir_unauthorized_requests_total") == before+100 })
	}
}

// A client may start many calls before it sends the first message. No connection is closed for
// such a burst.
func TestBurstOfFirstCallsIsAnswered(t *testing.T) {
	t.Parallel()
	f := openAttacked(t, strangerToken)
	request, err := proto.Marshal(requestOf(strings.Repeat("x", 900), "1"))
	if err != nil {
		t.Fatal(err)
	}
	const clients, calls = 3, 100 // as many as gRPC allows on one connection
	var all []*raw
	for range clients {
		r := dialRaw(t, f.rpc)
		for range calls {
			must.Do(t, r.call(limitMethod, "authorization", "Bearer "+strangerToken))
		}
		all = append(all, r)
	}
	for _, r := range all {
		for r.stream = 1; r.stream < 2*calls; r.stream += 2 {
			must.Do(t, r.message(len(request), request))
		}
	}
	must.Await(t, "the answers", func() bool { return metric(t, f.Admin, "weir_envoy_unknown_domains_total") == clients*calls })
}

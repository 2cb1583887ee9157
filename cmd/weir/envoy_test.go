package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"github.com/weirlimit/weir/internal/testkit/must"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// ratelimit SOCKET DOMAIN FILE key=value[,key=value]... asks over gRPC, each word
// being a descriptor, and writes what the answer says to a file, a line for each
// status: its code, what remains of how many, and the header fields.
func ratelimit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 {
		ts.Fatalf("usage: ratelimit SOCKET DOMAIN FILE key=value[,key=value]...")
	}
	r := &pb.RateLimitRequest{Domain: args[1]}
	for _, word := range args[3:] {
		d := &common.RateLimitDescriptor{}
		for _, entry := range strings.Split(word, ",") {
			key, value, _ := strings.Cut(entry, "=")
			d.Entries = append(d.Entries, &common.RateLimitDescriptor_Entry{Key: key, Value: value})
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	conn, err := grpc.NewClient("unix:"+ts.MkAbs(args[0]), grpc.WithTransportCredentials(insecure.NewCredentials()))
	ts.Check(err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	a, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(ctx, r)
	var said bytes.Buffer
	if err != nil {
		fmt.Fprintln(&said, err)
	}
	for _, s := range a.GetStatuses() {
		fmt.Fprintf(&said, "%v %d/%d\n", s.Code, s.LimitRemaining, s.CurrentLimit.GetRequestsPerUnit())
	}
	for _, h := range a.GetResponseHeadersToAdd() {
		fmt.Fprintf(&said, "%s: %s\n", h.Key, h.Value)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), said.Bytes(), 0o666))
}

// Header fields have the names of the reference service, or those of its variables.
func TestEnvoyHeaderNames(t *testing.T) {
	t.Setenv("LIMIT_LIMIT_HEADER", "x-limit")
	t.Setenv("LIMIT_REQUEST_RESET_HEADER", "x-reset")
	response := envoy.Headers{Limit: "x-limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"}
	request := envoy.Headers{Limit: "RateLimit-Limit", Remaining: "RateLimit-Remaining", Reset: "x-reset"}
	for headers, want := range map[string]envoy.Options{"none": {}, "response": {Response: &response}, "request": {Request: &request}, "both": {Response: &response, Request: &request}} {
		o := serveOptions{envoyHeaders: headers}
		must.Do(t, o.configureEnvoy())
		if got := o.config.EnvoyOptions; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", headers, got, want)
		}
	}
}

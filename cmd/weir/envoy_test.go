package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/weirlimit/weir/cmd/weir/internal/front/envoy"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spf13/cobra"
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

// Variables of the reference service apply unless a flag is set.
func TestEnvoyEnvironment(t *testing.T) {
	for _, c := range []struct {
		name  string
		env   map[string]string
		args  []string
		check func(o *envoy.Options) bool
		told  string
	}{
		{"nothing", nil, nil, func(o *envoy.Options) bool { return o.Response == nil }, ""},
		{"headers", map[string]string{"LIMIT_RESPONSE_HEADERS_ENABLED": "true", "LIMIT_LIMIT_HEADER": "x-limit"}, nil,
			func(o *envoy.Options) bool {
				return *o.Response == envoy.Headers{Limit: "x-limit", Remaining: "RateLimit-Remaining", Reset: "RateLimit-Reset"} && o.Request == nil
			}, "LIMIT_RESPONSE_HEADERS_ENABLED"},
		{"request headers", map[string]string{"LIMIT_REQUEST_HEADERS_ENABLED": "TRUE", "LIMIT_REQUEST_RESET_HEADER": "x-reset"}, nil,
			func(o *envoy.Options) bool { return o.Response == nil && o.Request.Reset == "x-reset" }, "LIMIT_REQUEST_HEADERS_ENABLED"},
		{"both", map[string]string{"LIMIT_RESPONSE_HEADERS_ENABLED": "1", "LIMIT_REQUEST_HEADERS_ENABLED": "1"}, nil,
			func(o *envoy.Options) bool { return o.Response != nil && o.Request != nil }, "LIMIT_REQUEST_HEADERS_ENABLED"},
		{"connections", map[string]string{"GRPC_MAX_CONNECTION_AGE": "30m"}, nil,
			func(o *envoy.Options) bool { return o.MaxConnectionAge == 30*time.Minute }, "GRPC_MAX_CONNECTION_AGE"},
		{"off", map[string]string{"LIMIT_RESPONSE_HEADERS_ENABLED": "false"}, nil, func(o *envoy.Options) bool { return o.Response == nil }, ""},
		{"flags go first", map[string]string{"LIMIT_RESPONSE_HEADERS_ENABLED": "true"}, []string{"--envoy-headers", "none"},
			func(o *envoy.Options) bool { return o.Response == nil }, ""},
		{"so does that of connections", map[string]string{"GRPC_MAX_CONNECTION_AGE": "30m"}, []string{"--grpc-max-connection-age", "0"},
			func(o *envoy.Options) bool { return o.MaxConnectionAge == 0 }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			var o serveOptions
			cmd, table := new(cobra.Command), o.table()
			table.addFlags(cmd)
			err := cmd.ParseFlags(append([]string{"--envoy-config", "internal/front/envoyconf/testdata/manual"}, c.args...))
			if err == nil {
				err = table.resolve(cmd.Flags(), "")
			}
			if err != nil {
				t.Fatal(err)
			}
			var told bytes.Buffer
			o.readEnvoyEnvironment(table, &told)
			if err := o.configureEnvoy(); err != nil {
				t.Fatal(err)
			}
			if !c.check(&o.config.EnvoyOptions) || o.config.Envoy == nil {
				t.Errorf("got %+v", o.config.EnvoyOptions)
			}
			if (c.told == "") != (told.Len() == 0) || !strings.Contains(told.String(), c.told) {
				t.Errorf("told %q, want it to name %q", told.String(), c.told)
			}
		})
	}
}

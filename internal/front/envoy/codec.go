package envoy

import (
	"context"
	"sync"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// The generated protobuf code costs more than a decision in memory: a fifth of the
// processor time of a whole call. So the usual messages have a path of their own. A
// request is parsed into messages that are reused, and an answer is written without
// being built first. All other messages take the generated code; tests compare both.

// serviceDesc is the protocol's service with that path.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*caller)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
	Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
}

// caller is the type of the registered service.
type caller interface {
	call(context.Context, *request) (wire, error)
}

// handle reads a request and returns its answer. There are no interceptors.
func handle(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err := rejectionOf(ctx); err != nil {
		return nil, err
	}
	e := srv.(*endpoint)
	r := e.requests.Get().(*request)
	defer func() {
		r.reset()
		e.requests.Put(r)
	}()
	if err := decode(r); err != nil {
		return nil, err
	}
	answer, err := e.call(ctx, r)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// endpoint is a service behind a gate.
type endpoint struct {
	service  *Service
	gate     Gate      // nil = open
	requests sync.Pool // of *request
}

// call answers a request, if the gate lets it in.
func (e *endpoint) call(ctx context.Context, r *request) (wire, error) {
	if e.gate != nil {
		if err := e.gate.Enter(); err != nil {
			return nil, err
		}
		defer e.gate.Leave()
	}
	return e.service.answerWire(ctx, &r.RateLimitRequest)
}

// wire is an encoded answer.
type wire []byte

// codec is gRPC's own codec, except for requests and answers.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal encodes v; an answer is encoded already.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if w, ok := v.(wire); ok {
		return mem.BufferSlice{mem.SliceBuffer(w)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal decodes data into v.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	r, ok := v.(*request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	if len(data) == 1 {
		return r.read(data[0].ReadOnlyData())
	}
	return r.read(data.Materialize())
}

// request is a reusable request message. Answers do not reference it.
type request struct {
	pb.RateLimitRequest

	descriptors []*common.RateLimitDescriptor       // all that were allocated; the message uses the first of them
	entries     []*common.RateLimitDescriptor_Entry // all that were allocated
	used        int                                 // entries in use
	generated   bool                                // the message was decoded by the generated code
}

// read decodes the message.
func (r *request) read(data []byte) error {
	if r.readUsual(data) {
		return nil
	}
	r.generated = true
	return proto.Unmarshal(data, &r.RateLimitRequest) // resets the message first
}

// reset clears the message and keeps its memory for another one.
func (r *request) reset() {
	if len(r.entries) > maxKept || len(r.descriptors) > maxKept {
		r.descriptors, r.entries = nil, nil
	}
	for _, d := range r.descriptors {
		d.Entries, d.HitsAddend, d.IsNegativeHits = d.Entries[:0], nil, false
	}
	for _, e := range r.entries[:min(r.used, len(r.entries))] {
		e.Key, e.Value = "", ""
	}
	r.used = 0
	if r.generated {
		r.generated = false
		r.RateLimitRequest.Reset()
		return
	}
	r.Domain, r.HitsAddend, r.Descriptors = "", 0, r.Descriptors[:0]
}

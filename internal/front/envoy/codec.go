package envoy

import (
	"context"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

// Reading the message and writing the answer cost more than a decision in memory, so
// the usual ones take a way of their own: a request is read into messages that are
// used again, an answer is written without becoming a message. Whatever is not usual
// takes the library's way; tests hold one to the other.

// serviceDesc is the protocol's service on that way.
var serviceDesc = grpc.ServiceDesc{
	ServiceName: pb.RateLimitService_ServiceDesc.ServiceName,
	HandlerType: (*handler)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "ShouldRateLimit", Handler: handle}},
	Metadata:    pb.RateLimitService_ServiceDesc.Metadata,
}

// handler is what serviceDesc is registered with.
type handler interface {
	call(context.Context, *request) (wire, error)
}

// handle is the method as gRPC calls it. There are no interceptors.
func handle(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	if err, ok := ctx.Value(rejection{}).(error); ok {
		return nil, err
	}
	s := srv.(*guarded)
	r := s.requests.Get().(*request)
	defer func() {
		r.reset()
		s.requests.Put(r)
	}()
	if err := decode(r); err != nil {
		return nil, err
	}
	answer, err := s.call(ctx, r)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// wire is an answer as it is sent.
type wire []byte

// codec is gRPC's own for messages, and ours for requests and answers.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(grpcproto.Name)} }

// Marshal writes an answer.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if w, ok := v.(wire); ok {
		return mem.BufferSlice{mem.SliceBuffer(w)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// Unmarshal reads a request.
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

// request is a message that is used again. Answers hold nothing of it.
type request struct {
	pb.RateLimitRequest

	descriptors []*common.RateLimitDescriptor       // made so far, of which the message holds some
	entries     []*common.RateLimitDescriptor_Entry // the same
	used        int                                 // of entries
	unusual     bool                                // the message is the library's
}

// read reads the message.
func (r *request) read(data []byte) error {
	if r.readUsual(data) {
		return nil
	}
	r.unusual = true
	return proto.Unmarshal(data, &r.RateLimitRequest) // which resets it
}

// reset forgets the message, and keeps room for another one.
func (r *request) reset() {
	if len(r.entries) > mostKept || len(r.descriptors) > mostKept {
		r.descriptors, r.entries = nil, nil
	}
	for _, d := range r.descriptors {
		d.Entries, d.HitsAddend, d.IsNegativeHits = d.Entries[:0], nil, false
	}
	for _, e := range r.entries[:min(r.used, len(r.entries))] {
		e.Key, e.Value = "", ""
	}
	r.used = 0
	if r.unusual {
		r.unusual = false
		r.RateLimitRequest.Reset()
		return
	}
	r.Domain, r.HitsAddend, r.Descriptors = "", 0, r.Descriptors[:0]
}

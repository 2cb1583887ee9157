package envoy

import (
	"context"
	"net/http"
	"strings"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// JSON answers a request in the JSON form of the protocol's messages, as the reference's
// /json does: 200, or 429 if the request is denied. The error gives the reason why there
// is no decision; the code is then 400 for bad input and 503 otherwise.
//
// ctx may hold the trace of the request in the form of gRPC metadata.
func (s *Service) JSON(ctx context.Context, body []byte) (code int, answer []byte, err error) {
	var r pb.RateLimitRequest
	if err := protojson.Unmarshal(body, &r); err != nil {
		s.Counts.BadInputs.Add(1)
		return http.StatusBadRequest, nil, badInput("the body is not a RateLimitRequest in JSON: %s", plainSpaces(err.Error()))
	}
	a, err := s.answer(ctx, &r)
	if err != nil {
		code = http.StatusServiceUnavailable
		if status.Code(err) == codes.InvalidArgument {
			code = http.StatusBadRequest
		}
		return code, nil, badInput("%s", status.Convert(err).Message())
	}
	code = http.StatusOK
	if a.OverallCode == pb.RateLimitResponse_OVER_LIMIT {
		code = http.StatusTooManyRequests
	}
	answer, err = protojson.Marshal(a)
	return code, answer, err
}

// plainSpaces replaces the no-break spaces that protojson puts into its errors at random,
// so that programs do not compare the texts.
func plainSpaces(text string) string { return strings.ReplaceAll(text, "\u00a0", " ") }

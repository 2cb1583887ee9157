package httpapi

import (
	"context"
	"net/http"

	"google.golang.org/grpc/metadata"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/weirhttp"
)

// serveEnvoy answers a request of Envoy's rate limit service in JSON, as the reference
// does: 200, or 429 after a denial.
func (a *API) serveEnvoy(w http.ResponseWriter, r *http.Request) {
	s := scratches.Get().(*scratch)
	defer s.release()
	var err error
	if s.body, err = a.readBody(w, r, s.body); err == nil {
		err = a.Capacity.Enter()
	}
	if err != nil {
		a.refuse(w, err)
		return
	}
	defer a.Capacity.Leave()
	code, text, err := a.Envoy.JSON(a.traced(r), s.body)
	if err != nil {
		weirhttp.WriteError(w, code, err.Error())
		return
	}
	writeJSON(w, code, answer.Printable(text))
}

// traced returns the context of a request with its trace as gRPC metadata, if tracing
// is on.
func (a *API) traced(r *http.Request) context.Context {
	if !a.Tracing {
		return r.Context()
	}
	return metadata.NewIncomingContext(r.Context(), metadata.Pairs("traceparent", r.Header.Get("Traceparent")))
}

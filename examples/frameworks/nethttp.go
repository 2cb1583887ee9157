package frameworks

import (
	"net/http"

	"github.com/weirlimit/weir/weirhttp"
)

// PathValue counts by a parameter of the pattern of net/http.
func PathValue(name string) weirhttp.ValueFunc {
	return func(r *http.Request) (string, error) { return r.PathValue(name), nil }
}

// ContextUser counts by the user that authenticate has put into the context.
func ContextUser(r *http.Request) (string, error) {
	user, _ := r.Context().Value(userKey{}).(string)
	return user, nil
}

// HTTPRoutes serves the shop with net/http.
func HTTPRoutes(s *Shop) http.Handler {
	perTenant := weirhttp.Middleware(s.Orders, weirhttp.By{"tenant": PathValue("tenant")})
	perUser := weirhttp.Middleware(s.Profile, weirhttp.By{"user": ContextUser})
	hello := http.HandlerFunc(s.hello)

	mux := http.NewServeMux()
	mux.Handle("GET /search", s.perKey()(hello))
	mux.Handle("GET /tenants/{tenant}/orders", perTenant(hello))
	mux.Handle("GET /me", s.authenticate(perUser(hello)))
	return s.perAddress()(mux)
}

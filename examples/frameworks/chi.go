package frameworks

import (
	"net/http"
	"net/url"

	"github.com/go-chi/chi/v5"

	"github.com/weirlimit/weir/weirhttp"
)

// ChiParam counts by a parameter of the path. It decodes the parameter, because chi leaves %61 for
// an a as it is in a path with such escapes.
func ChiParam(name string) weirhttp.ValueFunc {
	return func(r *http.Request) (string, error) {
		if r.URL.RawPath == "" { // chi has read the decoded path
			return chi.URLParam(r, name), nil
		}
		return url.PathUnescape(chi.URLParam(r, name))
	}
}

// ChiRoutes serves the shop with chi.
func ChiRoutes(s *Shop) http.Handler {
	perTenant := weirhttp.Middleware(s.Orders, weirhttp.By{"tenant": ChiParam("tenant")})
	perUser := weirhttp.Middleware(s.Profile, weirhttp.By{"user": ContextUser})

	router := chi.NewRouter()
	router.Use(s.perAddress())
	router.With(s.perKey()).Get("/search", s.hello)
	router.Route("/tenants/{tenant}", func(r chi.Router) {
		r.Use(perTenant)
		r.Get("/orders", s.hello)
	})
	router.Group(func(r chi.Router) {
		r.Use(s.authenticate, perUser)
		r.Get("/me", s.hello)
	})
	return router
}

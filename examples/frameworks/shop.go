// Package frameworks puts the limits of weirhttp in front of net/http, chi, Gin, Echo, Fiber and
// Connect, and those of weirgrpc in front of gRPC. It is no program: copy the file of your
// framework. The page docs/middleware.md has the order and the losses of each.
//
// Every framework serves the same Shop, so that one test checks all of them over real connections.
package frameworks

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net/http"
	"net/netip"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
)

// A Shop is the application that every framework serves. Each limiter has one dimension.
type Shop struct {
	Address *weir.Limiter // every route, by "ip"
	Search  *weir.Limiter // GET /search, by "key": the header X-Api-Key
	Orders  *weir.Limiter // all below /tenants/{tenant}, by "tenant": a parameter of the path
	Profile *weir.Limiter // GET /me behind a login, by "user": the login's result

	Proxies  []netip.Prefix    // the proxies in front of this server
	Accounts map[string]string // passwords by user
	Serve    func()            // the work of a handler
}

// perAddress limits each client address. It is the same for all frameworks.
func (s *Shop) perAddress(opts ...weirhttp.Option) func(http.Handler) http.Handler {
	ip := weirhttp.ClientIP(weirhttp.TrustedProxies(s.Proxies...))
	return weirhttp.Middleware(s.Address, weirhttp.By{"ip": ip}, opts...)
}

// perKey limits each API key. It is the same for all frameworks.
func (s *Shop) perKey() func(http.Handler) http.Handler {
	return weirhttp.Middleware(s.Search, weirhttp.By{"key": weirhttp.Header("X-Api-Key")})
}

// hello is the handler of all routes for net/http and chi.
func (s *Shop) hello(w http.ResponseWriter, _ *http.Request) {
	s.Serve()
	fmt.Fprint(w, "hello")
}

// knows reports whether a user has a password.
func (s *Shop) knows(user, password string) bool {
	want, ok := s.Accounts[user]
	return ok && subtle.ConstantTimeCompare([]byte(password), []byte(want)) == 1
}

// userKey is the key of the user in a request's context.
type userKey struct{}

// authenticate is a login for net/http. It puts the user into the request's context.
func (s *Shop) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if !s.knows(user, password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="shop"`)
			http.Error(w, "send the name and the password of an account", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

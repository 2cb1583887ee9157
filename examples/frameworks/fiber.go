package frameworks

import (
	"context"
	"net/http"
	"strings"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/basicauth"

	"github.com/weirlimit/weir/weirhttp"
)

// Fiber makes a middleware of net/http one of Fiber. Its request has no body, so that a denied one
// is not read. The handlers behind it run inside of limit, so that a concurrency limit holds until
// they return. Fiber's own adaptor.HTTPMiddleware would run them after limit has ended.
func Fiber(limit func(http.Handler) http.Handler) fiber.Handler {
	return func(c fiber.Ctx) error {
		ctx := context.WithValue(c.Context(), fiberKey{}, c)
		url := strings.Clone(c.OriginalURL())
		r, err := http.NewRequestWithContext(ctx, c.Method(), url, nil)
		if err != nil {
			return fiber.ErrBadRequest
		}
		r.Host = string(c.RequestCtx().Host())
		r.RemoteAddr = c.RequestCtx().RemoteAddr().String()
		r.ContentLength = int64(max(c.Request().Header.ContentLength(), -1)) // -1 = unknown
		for name, value := range c.Request().Header.All() {
			r.Header.Add(string(name), string(value))
		}
		w := fiberWriter{c, http.Header{}}
		limit(http.HandlerFunc(func(outer http.ResponseWriter, r *http.Request) {
			w.sendHeader()
			c.SetContext(r.Context())
			if err = c.Next(); err != nil {
				err = c.App().ErrorHandler(c, err)
			}
			outer.WriteHeader(c.Response().StatusCode()) // for limit
		})).ServeHTTP(w, r)
		w.sendHeader()
		return err
	}
}

// fiberWriter writes the answer of a middleware of net/http to Fiber's response. Fiber's context
// has the method Write.
type fiberWriter struct {
	fiber.Ctx
	header http.Header // not yet in Fiber's response
}

func (w fiberWriter) Header() http.Header    { return w.header }
func (w fiberWriter) WriteHeader(status int) { w.Status(status) }

// sendHeader moves the header into Fiber's response.
func (w fiberWriter) sendHeader() {
	for name, values := range w.header {
		for _, value := range values {
			w.Response().Header.Add(name, value)
		}
	}
	clear(w.header)
}

// FiberValue counts by a value of Fiber's context, behind the middleware of Fiber. It copies the
// value, because Fiber writes the next request into the same memory.
func FiberValue(value func(fiber.Ctx) string) weirhttp.ValueFunc {
	return func(r *http.Request) (string, error) {
		return strings.Clone(value(r.Context().Value(fiberKey{}).(fiber.Ctx))), nil
	}
}

type fiberKey struct{}

// FiberRoutes serves the shop with Fiber.
func FiberRoutes(s *Shop) *fiber.App {
	tenant := FiberValue(func(c fiber.Ctx) string { return c.Params("tenant") })
	user := FiberValue(func(c fiber.Ctx) string { return basicauth.UsernameFromContext(c) })
	perTenant := weirhttp.Middleware(s.Orders, weirhttp.By{"tenant": tenant})
	perUser := weirhttp.Middleware(s.Profile, weirhttp.By{"user": user})
	login := basicauth.New(basicauth.Config{
		Authorizer: func(user, password string, _ fiber.Ctx) bool { return s.knows(user, password) },
	})
	hello := func(c fiber.Ctx) error {
		s.Serve()
		return c.SendString("hello")
	}

	app := fiber.New(fiber.Config{UnescapePath: true})
	app.Use(Fiber(s.perAddress()))
	app.Get("/search", Fiber(s.perKey()), hello)
	app.Group("/tenants/:tenant", Fiber(perTenant)).Get("/orders", hello)
	app.Get("/me", login, Fiber(perUser), hello)
	return app
}

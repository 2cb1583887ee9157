package frameworks

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"

	"github.com/weirlimit/weir/weirhttp"
)

// Echo makes a middleware of net/http one of Echo. It answers the errors of handlers inside of
// limit, which then has the final status. echo.WrapMiddleware alone would answer them later.
func Echo(limit func(http.Handler) http.Handler) echo.MiddlewareFunc {
	wrap := echo.WrapMiddleware(limit)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		limited := wrap(func(c *echo.Context) error {
			if err := next(c); err != nil {
				c.Echo().HTTPErrorHandler(c, err)
			}
			return nil
		})
		return func(c *echo.Context) error {
			r := c.Request()
			c.SetRequest(r.WithContext(context.WithValue(r.Context(), echoKey{}, c)))
			return limited(c)
		}
	}
}

// EchoValue counts by a value of Echo's context, behind the middleware of Echo.
func EchoValue(value func(*echo.Context) string) weirhttp.ValueFunc {
	return func(r *http.Request) (string, error) {
		return value(r.Context().Value(echoKey{}).(*echo.Context)), nil
	}
}

type echoKey struct{}

// EchoRoutes serves the shop with Echo.
func EchoRoutes(s *Shop) *echo.Echo {
	tenant := EchoValue(func(c *echo.Context) string { return c.Param("tenant") })
	user := EchoValue(func(c *echo.Context) string {
		name, _ := c.Get("user").(string)
		return name
	})
	perTenant := weirhttp.Middleware(s.Orders, weirhttp.By{"tenant": tenant})
	perUser := weirhttp.Middleware(s.Profile, weirhttp.By{"user": user})
	login := middleware.BasicAuth(func(c *echo.Context, user, password string) (bool, error) {
		c.Set("user", user)
		return s.knows(user, password), nil
	})
	hello := func(c *echo.Context) error {
		s.Serve()
		return c.String(http.StatusOK, "hello")
	}

	decoding := echo.NewRouter(echo.RouterConfig{UnescapePathParamValues: true})
	router := echo.NewWithConfig(echo.Config{Router: decoding})
	router.Use(Echo(s.perAddress()))
	router.GET("/search", hello, Echo(s.perKey()))
	router.Group("/tenants/:tenant", Echo(perTenant)).GET("/orders", hello)
	router.Group("", login, Echo(perUser)).GET("/me", hello)
	return router
}

package frameworks

import (
	"context"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/weirlimit/weir/weirhttp"
)

// Gin makes a middleware of net/http one of Gin. The handlers behind it run inside of limit, so
// that a concurrency limit holds until they return.
func Gin(limit func(http.Handler) http.Handler) gin.HandlerFunc {
	return func(c *gin.Context) {
		passed := false
		next := func(w http.ResponseWriter, r *http.Request) {
			passed = true
			c.Request = r
			c.Next()
			w.WriteHeader(c.Writer.Status()) // for limit; Gin has the status already
		}
		r := c.Request.WithContext(context.WithValue(c.Request.Context(), ginKey{}, c))
		limit(http.HandlerFunc(next)).ServeHTTP(c.Writer, r)
		if !passed {
			c.Abort()
		}
	}
}

// GinValue counts by a value of Gin's context, behind the middleware of Gin.
func GinValue(value func(*gin.Context) string) weirhttp.ValueFunc {
	return func(r *http.Request) (string, error) {
		return value(r.Context().Value(ginKey{}).(*gin.Context)), nil
	}
}

type ginKey struct{}

// GinRoutes serves the shop with Gin.
func GinRoutes(s *Shop) *gin.Engine {
	tenant := GinValue(func(c *gin.Context) string { return c.Param("tenant") })
	user := GinValue(func(c *gin.Context) string { return c.GetString(gin.AuthUserKey) })
	perTenant := weirhttp.Middleware(s.Orders, weirhttp.By{"tenant": tenant})
	perUser := weirhttp.Middleware(s.Profile, weirhttp.By{"user": user})
	hello := func(c *gin.Context) {
		s.Serve()
		c.String(http.StatusOK, "hello")
	}

	router := gin.New()
	router.Use(Gin(s.perAddress()))
	router.GET("/search", Gin(s.perKey()), hello)
	router.Group("/tenants/:tenant", Gin(perTenant)).GET("/orders", hello)
	router.Group("/", gin.BasicAuth(s.Accounts), Gin(perUser)).GET("/me", hello)
	return router
}

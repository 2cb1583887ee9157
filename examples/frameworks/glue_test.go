package frameworks

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/gofiber/fiber/v3"
	fiberrecover "github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/labstack/echo/v5"
	echomiddleware "github.com/labstack/echo/v5/middleware"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
)

// forged returns fields in which a client names an address, and which a framework may read.
func forged(i int) []string {
	address := fmt.Sprintf("203.0.113.%d", i)
	return []string{"X-Forwarded-For", address, "X-Real-IP", address, "True-Client-IP", address}
}

// wantOneClient sends three requests that claim to come from three addresses, at a limit of two.
// The body is the address that the framework sees.
func wantOneClient(t *testing.T, url string) {
	t.Helper()
	for i, want := range []int{200, 200, 429} {
		a := get(t, url, forged(i+1)...)
		if a.status != want {
			t.Errorf("request %d: %d, want %d", i+1, a.status, want)
		}
		if seen := fmt.Sprintf("203.0.113.%d", i+1); want == 200 && a.body != seen {
			t.Errorf("request %d: the framework sees %q, want %s, or this test tests nothing", i+1, a.body, seen)
		}
	}
}

// twoPerAddress limits clients that no proxy hides.
func twoPerAddress(t *testing.T) func(http.Handler) http.Handler {
	limiter := newLimiter(t, "address", weir.PerHour(2, "ip"))
	return weirhttp.Middleware(limiter, weirhttp.By{"ip": weirhttp.ClientIP()})
}

//lint:ignore SA1019 programs still use it, and the test shows why it is deprecated
var realIP = middleware.RealIP

// TestRealIPOfChiComesAfterTheLimit: in front of it the deprecated RealIP would let each client
// choose the address that it is counted by.
func TestRealIPOfChiComesAfterTheLimit(t *testing.T) {
	address := func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }
	router := chi.NewRouter()
	router.Use(twoPerAddress(t), realIP)
	router.Get("/", address)
	wantOneClient(t, serve(t, router))

	router = chi.NewRouter()
	router.Use(realIP, twoPerAddress(t)) // the mistake
	router.Get("/", address)
	url := serve(t, router)
	for i := range 5 {
		wantStatuses(t, []int{200}, url, forged(i+1)...)
	}
}

// TestParametersAreUnknownAtTheTop: chi runs middlewares of the top before it finds the route, so a
// limit by a parameter answers every request with 400 there.
func TestParametersAreUnknownAtTheTop(t *testing.T) {
	limiter := newLimiter(t, "orders", weir.PerHour(2, "tenant"))
	router := chi.NewRouter()
	router.Use(weirhttp.Middleware(limiter, weirhttp.By{"tenant": ChiParam("tenant")})) // the mistake
	router.Get("/tenants/{tenant}", func(http.ResponseWriter, *http.Request) {})
	wantStatuses(t, []int{400, 400, 400}, serve(t, router)+"/tenants/acme")
}

// TestClientIPOfGinIsNotAsked: by default Gin trusts the fields of every peer.
func TestClientIPOfGinIsNotAsked(t *testing.T) {
	router := gin.New()
	router.Use(Gin(twoPerAddress(t)))
	router.GET("/", func(c *gin.Context) { c.String(http.StatusOK, c.ClientIP()) })
	wantOneClient(t, serve(t, router))
}

// TestIPExtractorOfEchoIsNotAsked: the one of version 4 trusts the fields of every peer.
func TestIPExtractorOfEchoIsNotAsked(t *testing.T) {
	router := echo.NewWithConfig(echo.Config{IPExtractor: echo.LegacyIPExtractor()})
	router.Use(Echo(twoPerAddress(t)))
	router.GET("/", func(c *echo.Context) error { return c.String(http.StatusOK, c.RealIP()) })
	wantOneClient(t, serve(t, router))
}

// TestProxyHeaderOfFiberIsNotAsked: with TrustProxy it takes the whole field of a proxy.
func TestProxyHeaderOfFiberIsNotAsked(t *testing.T) {
	app := fiber.New(fiber.Config{
		ProxyHeader:      fiber.HeaderXForwardedFor,
		TrustProxy:       true,
		TrustProxyConfig: fiber.TrustProxyConfig{Loopback: true},
	})
	app.Use(Fiber(twoPerAddress(t)))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString(c.IP()) })
	wantOneClient(t, serveFiber(t, app))
}

// A statusWriter remembers the status that a handler has written.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// TestMiddlewareSeesTheStatus: a middleware that decides by the status of an answer has it when the
// handlers have returned, also if the framework answers an error of theirs.
func TestMiddlewareSeesTheStatus(t *testing.T) {
	var seen []int
	observe := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			observed := &statusWriter{ResponseWriter: w}
			next.ServeHTTP(observed, r)
			seen = append(seen, observed.status)
		})
	}

	ginRouter := gin.New()
	ginRouter.Use(Gin(observe))
	ginRouter.GET("/teapot", func(c *gin.Context) { c.AbortWithStatus(http.StatusTeapot) })
	ginRouter.GET("/fine", func(c *gin.Context) { c.String(http.StatusCreated, "fine") })

	echoRouter := echo.New()
	echoRouter.Use(Echo(observe))
	echoRouter.GET("/teapot", func(*echo.Context) error { return echo.NewHTTPError(http.StatusTeapot, "tea") })
	echoRouter.GET("/fine", func(c *echo.Context) error { return c.String(http.StatusCreated, "fine") })

	app := fiber.New()
	app.Use(Fiber(observe))
	app.Get("/teapot", func(fiber.Ctx) error { return fiber.NewError(http.StatusTeapot, "tea") })
	app.Get("/fine", func(c fiber.Ctx) error { return c.Status(http.StatusCreated).SendString("fine") })

	for name, url := range map[string]string{
		"Gin":   serve(t, ginRouter),
		"Echo":  serve(t, echoRouter),
		"Fiber": serveFiber(t, app),
	} {
		seen = nil
		for _, path := range []string{"/teapot", "/fine", "/missing"} {
			get(t, url+path)
		}
		if want := []int{418, 201, 404}; !slices.Equal(seen, want) {
			t.Errorf("%s: the middleware sees %d, want %d", name, seen, want)
		}
		sent := []int{get(t, url+"/teapot").status, get(t, url+"/fine").status, get(t, url+"/missing").status}
		if want := []int{418, 201, 404}; !slices.Equal(sent, want) {
			t.Errorf("%s: the client sees %d, want %d", name, sent, want)
		}
	}
}

// TestPanicsEndTheHold: a handler that panics gives its place back, and the framework answers.
func TestPanicsEndTheHold(t *testing.T) {
	one := func() func(http.Handler) http.Handler {
		limit := weir.Limit{Kind: weir.KindConcurrency, Max: 1, MaxHold: time.Hour}
		return weirhttp.Middleware(newLimiter(t, "one", limit), nil)
	}
	ginRouter := gin.New()
	ginRouter.Use(gin.RecoveryWithWriter(io.Discard), Gin(one()))
	ginRouter.GET("/", func(*gin.Context) { panic("of a test") })
	echoRouter := echo.NewWithConfig(echo.Config{Logger: slog.New(slog.DiscardHandler)})
	echoRouter.Use(echomiddleware.Recover(), Echo(one()))
	echoRouter.GET("/", func(*echo.Context) error { panic("of a test") })
	app := fiber.New()
	app.Use(fiberrecover.New(), Fiber(one()))
	app.Get("/", func(fiber.Ctx) error { panic("of a test") })
	for _, url := range []string{serve(t, ginRouter), serve(t, echoRouter), serveFiber(t, app)} {
		wantStatuses(t, []int{500, 500, 500}, url)
	}
}

// TestHandlersHaveTheOutcome: the decision is in the context of the handler, also of an error's.
func TestHandlersHaveTheOutcome(t *testing.T) {
	remaining := func(r *http.Request) string {
		o, ok := weirhttp.FromContext(r.Context())
		if !ok {
			return "none"
		}
		return fmt.Sprint(o.Decision.Remaining, " left")
	}
	ginRouter := gin.New()
	ginRouter.GET("/", Gin(twoPerAddress(t)), func(c *gin.Context) {
		c.String(http.StatusOK, remaining(c.Request))
	})
	echoRouter := echo.New()
	echoRouter.Use(Echo(twoPerAddress(t)))
	echoRouter.GET("/", func(c *echo.Context) error {
		return c.String(http.StatusOK, remaining(c.Request()))
	})
	app := fiber.New()
	app.Get("/", Fiber(twoPerAddress(t)), func(c fiber.Ctx) error {
		o, ok := weirhttp.FromContext(c.Context())
		if !ok {
			return c.SendString("none")
		}
		return c.SendString(fmt.Sprint(o.Decision.Remaining, " left"))
	})
	for name, url := range map[string]string{
		"Gin":   serve(t, ginRouter),
		"Echo":  serve(t, echoRouter),
		"Fiber": serveFiber(t, app),
	} {
		if a := get(t, url); a.body != "1 left" {
			t.Errorf("%s: %q, want 1 left", name, a.body)
		}
	}
}

// TestFiberAnswersOfOwnHandlers: what OnDenied writes reaches the client, with or without a status.
func TestFiberAnswersOfOwnHandlers(t *testing.T) {
	limiter := newLimiter(t, "none", weir.PerHour(0))
	for status, want := range map[int]int{0: 200, 403: 403} {
		denied := weirhttp.OnDenied(func(w http.ResponseWriter, _ *http.Request, _ *weirhttp.Outcome) {
			w.Header().Add("X-Own", "a")
			w.Header().Add("X-Own", "b")
			if status != 0 {
				w.WriteHeader(status)
			}
			fmt.Fprint(w, "slow ")
			fmt.Fprint(w, "down")
		})
		app := fiber.New()
		app.Use(Fiber(weirhttp.Middleware(limiter, nil, denied)))
		a := get(t, serveFiber(t, app))
		own := a.header.Values("X-Own")
		hasFields := slices.Equal(own, []string{"a", "b"}) && hasField(a, "RateLimit", `"none";r=0`)
		if a.status != want || a.body != "slow down" || !hasFields {
			t.Errorf("%+v, want %d, slow down and the fields", a, want)
		}
	}
}

// TestFiberCostsTheLengthOfTheBody: the request of a middleware has no body, but its length, its
// host and its fields.
func TestFiberCostsTheLengthOfTheBody(t *testing.T) {
	var seen []string
	byLength := weirhttp.Cost(func(r *http.Request) int64 {
		seen = append(seen, fmt.Sprint(r.Method, " ", r.URL, " ", r.Host, " ", r.ContentLength))
		return max(r.ContentLength, 1)
	})
	limiter := newLimiter(t, "bytes", weir.PerHour(10, "host"))
	app := fiber.New(fiber.Config{StreamRequestBody: true})
	app.Use(Fiber(weirhttp.Middleware(limiter, weirhttp.By{"host": weirhttp.Header("Host")}, byLength)))
	app.Post("/files", func(c fiber.Ctx) error { return c.Send(c.Body()) })
	url := serveFiber(t, app) + "/files?name=a"
	host := strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/files?name=a")
	for _, c := range []struct {
		body    io.Reader
		length  int
		allowed bool
	}{
		{strings.NewReader("123456"), 6, true},
		{io.MultiReader(strings.NewReader("123"), strings.NewReader("4")), -1, true}, // in chunks
		{strings.NewReader("1234"), 4, false},
		{strings.NewReader("123"), 3, true},
	} {
		response, err := http.Post(url, "text/plain", c.body)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if (response.StatusCode == 200) != c.allowed {
			t.Errorf("length %d: %d %s, want allowed %t", c.length, response.StatusCode, body, c.allowed)
		}
		if c.allowed && c.length > 0 && len(body) != c.length {
			t.Errorf("length %d: the handler has read %q", c.length, body)
		}
		want := fmt.Sprint("POST /files?name=a ", host, " ", c.length)
		if got := seen[len(seen)-1]; got != want {
			t.Errorf("the middleware sees %s, want %s", got, want)
		}
	}
}

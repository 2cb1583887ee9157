// Command search answers five HTTP requests a minute per client address, and
// tells the sixth when to come back.
//
// It calls its handler directly; a service would pass it to http.ListenAndServe.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
)

func main() { run(os.Stdout) }

func run(w io.Writer) {
	limiter, err := weir.New(weir.Policy{
		Name: "search",
		Limits: []weir.Limit{
			{Name: "minute", Max: 5, Window: time.Minute, By: []string{"ip"}},
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	perIP := weirhttp.Middleware(limiter, weirhttp.ByClientIP())
	handler := perIP(http.HandlerFunc(search))

	for range 6 {
		get(w, handler, "192.0.2.1:4711")
	}
	get(w, handler, "198.51.100.7:4711")
}

// search finds nothing, quickly.
func search(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "no results") }

// get asks the handler as the client at an address, and prints what it said.
func get(w io.Writer, handler http.Handler, client string) {
	request := httptest.NewRequest(http.MethodGet, "/search?q=weir", nil)
	request.RemoteAddr = client
	response := httptest.NewRecorder()
	handler.ServeHTTP(response, request)

	fmt.Fprintln(w, client, response.Code)
	for _, field := range []string{"RateLimit", "Retry-After"} {
		if value := response.Header().Get(field); value != "" {
			fmt.Fprintf(w, "  %s: %s\n", field, value)
		}
	}
	if response.Code != http.StatusOK {
		fmt.Fprintf(w, "  %s\n", bytes.TrimSpace(response.Body.Bytes()))
	}
}

// Command search answers five HTTP requests a minute per client address. The sixth gets
// status 429 with the wait.
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

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
)

func main() { run(os.Stdout) }

func run(w io.Writer) {
	limiter, err := weir.New(weir.Policy{
		Name:   "search",
		Limits: []weir.Limit{weir.PerMinute(5, "ip")},
	})
	if err != nil {
		log.Fatal(err)
	}
	perIP := weirhttp.Middleware(limiter, weirhttp.By{"ip": weirhttp.ClientIP()})
	handler := perIP(http.HandlerFunc(search))

	for range 6 {
		get(w, handler, "192.0.2.1:4711")
	}
	get(w, handler, "198.51.100.7:4711")
}

// search is the handler behind the limit.
func search(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "no results") }

// get sends one request from the client address, and prints the response.
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

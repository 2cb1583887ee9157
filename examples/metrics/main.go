// Command metrics is a web server that shows its decisions to Prometheus: five requests a
// minute per client address.
//
//	go run ./examples/metrics
//	curl http://127.0.0.1:8080/
//	curl http://127.0.0.1:8080/metrics
//
// opentelemetry.go makes metrics and spans for OpenTelemetry; its test reads them. To use one in
// a program, copy it and outcome.go. For both, call weir.Observe twice.
package main

import (
	"flag"
	"fmt"
	"log"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/weirhttp"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "the `address` to listen on")
	flag.Parse()
	handler, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe(*listen, handler))
}

// newHandler returns the application and its page of metrics.
func newHandler() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	observe, err := prometheusObserver(registry)
	if err != nil {
		return nil, err
	}
	store := weir.Observe(weir.NewMemory(), observe)
	search := weir.Policy{Name: "search", Limits: []weir.Limit{weir.PerMinute(5, "ip")}}
	limiter, err := weir.New(search, weir.WithEngine(store))
	if err != nil {
		return nil, err
	}
	limit := weirhttp.Middleware(limiter, weirhttp.By{"ip": weirhttp.ClientIP()})
	mux := http.NewServeMux()
	mux.Handle("/", limit(http.HandlerFunc(hello)))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}

// hello is the handler behind the limit.
func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

// Package integrations has snippets: complete configurations of nginx, HAProxy, Caddy,
// Traefik and Envoy that call weir before they forward a request. `weir snippet`
// prints them.
//
// A snippet is a template. The files beside it are the template with the defaults, for
// readers: one version fails open, the other fails closed. A test compares them with
// the templates. Other tests start the real nginx, HAProxy and Caddy with a real weir,
// and stop, hang or restart weir. They do the same with the applications of examples/ for
// Express and Flask.
package integrations

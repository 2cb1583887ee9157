// Package integrations holds recipes for proxies that call weir before they let a
// request pass: complete configurations of nginx, HAProxy, Caddy, Traefik and
// Envoy. `weir snippet` prints them.
//
// A recipe is a template. The files beside it are made of it with the defaults,
// once failing open and once failing closed, for readers; a test keeps them equal.
// Another starts the real nginx, HAProxy and Caddy with a real weir and takes weir
// away in every manner.
package integrations

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestReadyOfOtherAnswers: an answer that is not one of /readyz has a reason and the next step.
// A store that is down has a line in the output.
func TestReadyOfOtherAnswers(t *testing.T) {
	for _, c := range []struct {
		status       int
		body         string
		code         int
		stdout, says string
	}{
		{200, `{"ready":true}`, exitOK, "ready\n", ""},
		{200, `{"ready":true,"store_down":"no route"}`, exitOK, "ready\n  the store is down: no route\n", ""},
		{503, `{"ready":false}`, exitDenied, "not ready: 503 Service Unavailable\n", ""},
		{502, `a proxy`, exitDenied, "not ready: 502 Bad Gateway\n", ""},
		{200, `<html>`, exitUsage, "", "is not a weir: its answer to GET /readyz is malformed"},
		{404, `nothing`, exitUsage, "", "is not a weir: it answers 404 Not Found to GET /readyz"},
		{401, ``, exitUsage, "", "answers 401 Unauthorized to GET /readyz\n  is --url the address of weir, without a path?"},
		{400, "Client sent an HTTP request to an HTTPS server.\n", exitUsage, "", "it speaks TLS\n  write --url https://127.0.0.1:"},
	} {
		weir := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}))
		code, stdout, stderr := runWeir("ready", "--url", weir.URL)
		weir.Close()
		if stdout != c.stdout {
			t.Errorf("%d %s: printed %q, want %q", c.status, c.body, stdout, c.stdout)
		}
		if c.says != "" {
			wantWords(t, []string{"ready"}, code, stderr, c.code, []string{c.says})
		} else if code != c.code {
			t.Errorf("%d %s: exit %d, want %d; %s", c.status, c.body, code, c.code, stderr)
		}
	}
}

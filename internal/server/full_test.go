package server

import (
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// TestFullMetrics: whoever bounds memory sees the bound, what is in use and who was
// refused because of it; without a bound there are no such series.
func TestFullMetrics(t *testing.T) {
	s, _ := newServer(t, weir.NewMemory(weir.MaxBytes(4096)))
	refused := 0
	for i := range 200 {
		if r := ask(s, "GET", "/gate/search?ip="+strings.Repeat("x", i+1), ""); r.status == 503 {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("200 keys fit in 4 KiB")
	}
	got := ask(s, "GET", "/metrics", "").body
	for _, line := range []string{"weir_store_max_bytes 4096", "weir_store_full_total " + strconv.Itoa(refused)} {
		if !strings.Contains(got, "\n"+line+"\n") {
			t.Errorf("no line %s in\n%s", line, got)
		}
	}
	s, _ = newServer(t, weir.NewMemory())
	if got := ask(s, "GET", "/metrics", "").body; strings.Contains(got, "weir_store_max") || strings.Contains(got, "weir_store_full") {
		t.Error("bounds that there are not")
	}
}

package server

import (
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir"
)

// TestMemoryBoundHasMetrics: with a memory bound the metrics show the bound, the memory
// in use and the rejected keys. Without one there are no such series.
func TestMemoryBoundHasMetrics(t *testing.T) {
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
		t.Error("metrics of a bound that is not set")
	}
}

package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestShopLogIsTheOutput compares the file in the repository with the output of the program.
func TestShopLogIsTheOutput(t *testing.T) {
	packed := must.Get(os.ReadFile("shop.log.gz"))(t)
	want := must.Get(io.ReadAll(must.Get(gzip.NewReader(bytes.NewReader(packed)))(t)))(t)
	var got bytes.Buffer
	must.Do(t, writeLog(&got))
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("shop.log.gz differs; run go run ./examples/logs > examples/logs/shop.log.gz")
	}
}

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
	packed, err := os.ReadFile("shop.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	must.Do(t, writeLog(&got))
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("shop.log.gz differs; run go run ./examples/logs > examples/logs/shop.log.gz")
	}
}

package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"
)

// TestShopLogIsTheOutput compares the file in the repository with the output of the program.
func TestShopLogIsTheOutput(t *testing.T) {
	f, err := os.Open("shop.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	want, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := writeLog(&got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Error("shop.log.gz differs; run go run ./examples/logs > examples/logs/shop.log.gz")
	}
}

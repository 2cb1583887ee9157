package browsertest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var file = flag.String("browsertest.file", "", "the report `FILE` of the pictures; default: the sample")

// TestShots takes pictures of a report in each look. Keep them for a reader with
//
//	go test -run TestShots -artifacts -outputdir DIR
func TestShots(t *testing.T) {
	url := "file://" + *file
	if *file == "" {
		url = write(t, sample())
	}
	for name, s := range map[string]screen{
		"light": {width: 1400, height: 1900}, "dark": {width: 1400, height: 1900, dark: true},
		"narrow": {width: 390, height: 2600}, "narrow-dark": {width: 390, height: 2600, dark: true},
	} {
		b := open(t, url, s)
		picture := get(b, chromedp.CaptureScreenshot())
		save(t, name+".png", picture)
		b.quiet()
	}
	b := open(t, url, wide)
	pdf := get(b, chromedp.PrintToPDF(chromedp.PDFPreferCSSPageSize(), chromedp.PDFPrintBackground()))
	save(t, "print.pdf", pdf)
}

func save(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), b, 0o666); err != nil {
		t.Fatal(err)
	}
}

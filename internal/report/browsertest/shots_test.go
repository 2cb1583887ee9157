package browsertest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

var (
	shots = flag.String("browsertest.shots", "", "write pictures of a report to `DIR`")
	file  = flag.String("browsertest.file", "", "the report `FILE` of the pictures; default: the sample")
)

// TestShots writes pictures for a reader. Without a folder it does nothing.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("-browsertest.shots DIR writes pictures")
	}
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
	if err := os.WriteFile(filepath.Join(*shots, name), b, 0o666); err != nil {
		t.Fatal(err)
	}
}

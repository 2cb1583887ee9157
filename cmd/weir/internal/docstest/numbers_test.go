package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// numberOnPage matches two lines of testdata/numbers.txt.
var numberOnPage = regexp.MustCompile(`(?m)^(docs/\S+): (.+)\n    (\S+): (.+)$`)

// TestNumbersOnPages: a bound or a default that a page names is that of the code. Whoever
// changes one of the two texts changes the other.
func TestNumbersOnPages(t *testing.T) {
	list := string(must.Get(os.ReadFile("testdata/numbers.txt"))(t))
	found := numberOnPage.FindAllStringSubmatch(list, -1)
	for _, m := range found {
		page, text, file, code := m[1], m[2], m[3], m[4]
		if !strings.Contains(words(read(t, page)), text) {
			t.Errorf("%s does not have %q, as %s has %q", page, text, file, code)
		}
		if !strings.Contains(words(read(t, file)), code) {
			t.Errorf("%s does not have %q; is %q of %s still true?", file, code, text, page)
		}
	}
	if n := strings.Count(list, "\ndocs/"); len(found) != n || n < 30 {
		t.Errorf("%d of %d numbers of testdata/numbers.txt were read", len(found), n)
	}
}

// words returns a text with one space between its words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

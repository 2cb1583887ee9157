package docs_test

import (
	"go/token"
	"go/types"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	nameOnPage    = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*)(?:\\.([A-Z]\\w*))?")
	nameInComment = regexp.MustCompile(`[\s(]\[\*?(?:([a-z]\w*)\.)?([A-Z]\w*)(?:\.([A-Z]\w*))?\]`)
	plainName     = regexp.MustCompile("`((?:[A-Z][a-z]|[a-z]+[A-Z])\\w*)(?:\\.([A-Z]\\w*))?(?:\\([^`]*\\))?`")
)

// A goName is a name of a package that a page or a comment mentions.
type goName struct{ place, pkg, name, member string }

// TestGoNamesExist looks up names of packages on pages, such as `weir.Never`, and the links
// of comments, such as [Limiter.At].
func TestGoNamesExist(t *testing.T) {
	paths := packagePaths(t)
	var all []goName
	for _, page := range pages(t) {
		for _, m := range nameOnPage.FindAllStringSubmatch(read(t, page), -1) {
			if pkg := paths[m[1]]; strings.HasPrefix(pkg, module) && !strings.Contains(pkg, "/internal/") {
				all = append(all, goName{page, pkg, m[2], m[3]})
			}
		}
	}
	onPages := len(all)
	for _, file := range files(t, isProgram) {
		for _, m := range nameInComment.FindAllStringSubmatch(strings.Join(comment.FindAllString(read(t, file), -1), "\n"), -1) {
			pkg := paths[m[1]]
			if m[1] == "" {
				pkg = path.Join(module, path.Dir(file))
			}
			all = append(all, goName{file, pkg, m[2], m[3]})
		}
	}
	if onPages < 10 || len(all)-onPages < 100 {
		t.Fatalf("found %d names on pages, %d in comments", onPages, len(all)-onPages)
	}
	used := map[string]bool{}
	for _, n := range all {
		used[n.pkg] = true
	}
	packages := exportsOf(t, token.NewFileSet(), slices.Sorted(maps.Keys(used)))
	for _, n := range all {
		pkg, err := packages.Import(n.pkg)
		if err != nil {
			t.Errorf("%s: %v", n.place, err)
			continue
		}
		object := pkg.Scope().Lookup(n.name)
		if object == nil {
			t.Errorf("%s: %s has no %s", n.place, n.pkg, n.name)
			continue
		}
		if n.member == "" {
			continue
		}
		if member, _, _ := types.LookupFieldOrMethod(object.Type(), true, pkg, n.member); member == nil {
			t.Errorf("%s: %s.%s has no %s", n.place, n.pkg, n.name, n.member)
		}
	}
}

// TestPlainNamesExist: a name such as `RetryAfter` on a page is a word of some other file.
// The changelog also names what is gone.
func TestPlainNamesExist(t *testing.T) {
	words := map[string]bool{}
	for _, file := range files(t, func(path string) bool { return !strings.HasSuffix(path, ".md") }) {
		for w := range strings.FieldsFuncSeq(read(t, file), isNoLetter) {
			words[w] = true
		}
	}
	for _, page := range pages(t) {
		for _, m := range plainName.FindAllStringSubmatch(read(t, page), -1) {
			if page == "docs/migrating.md" && unicode.IsLower(rune(m[1][0])) {
				continue // of another limiter
			}
			if !words[m[1]] || m[2] != "" && !words[m[2]] {
				t.Errorf("%s: no file has %s", page, m[0])
			}
		}
	}
}

// isNoLetter reports whether a rune separates the words of a program.
func isNoLetter(r rune) bool {
	return r >= unicode.MaxASCII || r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r)
}

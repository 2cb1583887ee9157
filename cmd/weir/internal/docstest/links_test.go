package docs_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/markdown"
)

var (
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)|<img[^>]* src="([^"]+)"|(?m:^\[[^\]]+\]: (\S+)$)`)
	remote      = regexp.MustCompile(`^[a-z]+:`)
	heading     = regexp.MustCompile(`(?m)^#+ (.+?)\s*$`)
	linkedWords = regexp.MustCompile(`\[([^\]]+)\]\([^)]*\)`)
	notInURL    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinksLeadSomewhere: each relative link of a page leads to a file or directory, and each
// anchor to a heading.
func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(markdown.Prose(read(t, page)), -1) {
			to := m[1] + m[2] + m[3]
			if remote.MatchString(to) {
				continue
			}
			to, anchor, _ := strings.Cut(to, "#")
			target := page
			if to != "" {
				target = path.Join(path.Dir(page), to)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s links to %s: %v", page, to, err)
				continue
			}
			if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
				t.Errorf("%s links to #%s of %s, which has no such heading", page, anchor, target)
			}
		}
	}
}

// anchors returns the anchors of the headings of a page, as GitHub makes them.
func anchors(page string) []string {
	for _, b := range markdown.Blocks(page) {
		page = strings.Replace(page, b.Text, "", 1)
	}
	var found []string
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		anchor := linkedWords.ReplaceAllString(m[1], "$1")
		anchor = strings.ReplaceAll(notInURL.ReplaceAllString(strings.ToLower(anchor), ""), " ", "-")
		for i, first := 1, anchor; slices.Contains(found, anchor); i++ {
			anchor = first + "-" + strconv.Itoa(i)
		}
		found = append(found, anchor)
	}
	return found
}

func TestAnchors(t *testing.T) {
	const page = "# A page\n```sh\n# comment\n```\n## `POST /v1/check`, [here](x.md)\n## R1 One instant\n### snake_case: “20 per second”\n## A page\n"
	want := []string{"a-page", "post-v1check-here", "r1-one-instant", "snake_case-20-per-second", "a-page-1"}
	if got := anchors(page); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

var (
	pathInCode = regexp.MustCompile(`[\w./*-]+`)
	pathInText = regexp.MustCompile(`(?:^|[\s(])([a-z]\w*(?:/[\w.-]+)+\.(?:go|lua|md|txt|yaml|json|tmpl|svg))\b`)
	comment    = regexp.MustCompile(`(?m)^\s*//.*$|\s// .*$`)
	source     = regexp.MustCompile(`\w\.(go|lua|md|tmpl)$`)
)

// TestPathsExist: a path is that of a file, if it begins in a directory of the module or
// ends as source files do. Pages have paths in code and in text, comments in text.
func TestPathsExist(t *testing.T) {
	names := map[string]bool{}
	for _, file := range files(t, func(string) bool { return true }) {
		names[path.Base(file)] = true
	}
	check := func(file, name string) {
		name = strings.Trim(name, ".")
		if isPath(name) && !exists(file, name) && (strings.Contains(name, "/") || !names[name]) {
			t.Errorf("%s names %s, which does not exist", file, name)
		}
	}
	for _, page := range pages(t) {
		text := read(t, page)
		code := markdown.Spans(text)
		for _, b := range markdown.Blocks(text) {
			code = append(code, b.Text)
		}
		for _, name := range pathInCode.FindAllString(strings.Join(code, "\n"), -1) {
			check(page, name)
		}
		for _, m := range pathInText.FindAllStringSubmatch(text, -1) {
			check(page, m[1])
		}
	}
	for _, file := range files(t, isProgram) {
		for _, text := range comment.FindAllString(read(t, file), -1) {
			for _, m := range pathInText.FindAllStringSubmatch(text, -1) {
				check(file, m[1])
			}
		}
	}
}

// isPath reports whether a word names a file of this module.
func isPath(name string) bool {
	if source.MatchString(name) {
		return true
	}
	first, _, ok := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	info, err := os.Stat(filepath.Join(root, first))
	return ok && first != "" && first != "bin" && err == nil && info.IsDir() // bin has built files
}

// exists reports whether a path exists, relative to root or to the directory of the file
// that names it. It may be a pattern, or a module of Python without its ending.
func exists(file, name string) bool {
	name = strings.Trim(name, "/")
	for _, pattern := range []string{name, path.Join(path.Dir(file), name), name + ".py"} {
		if found, err := fs.Glob(os.DirFS(root), path.Clean(pattern)); err == nil && len(found) > 0 {
			return true
		}
	}
	return false
}

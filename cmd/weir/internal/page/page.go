// Package page is the operators' page of weir serve: present denials with their reasons, keys,
// overrides, the health of the store, and a form to try an attempt.
//
// The files hold no data. The script requests a token, keeps it in its memory only, and shows
// the answers of the HTTP API: no number of the page has another source. It uses no framework,
// since such pages die with theirs, and sends no request to another origin.
//
// A view is an object with a title and build in page.js, an entry of views there, and a link in
// page.html. Package browsertest opens each view in a browser.
package page

import (
	_ "embed" // the files

	"github.com/weirlimit/weir/cmd/weir/internal/look"
)

// SecurityPolicy is the content security policy of all files: scripts, style and requests of the
// same origin, and none of them inline.
const SecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; " +
	"connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'; require-trusted-types-for 'script'"

// A File is a part of the page.
type File struct {
	Type string // for Content-Type
	Text []byte
}

var (
	//go:embed page.html
	shell []byte
	//go:embed page.css
	style string
	//go:embed page.js
	script string
	//go:embed icon.svg
	icon []byte
)

// Files are the files by their paths. Their links are relative, so that a proxy may add a prefix.
var Files = map[string]File{
	"/":         {"text/html; charset=utf-8", shell},
	"/page.css": {"text/css; charset=utf-8", []byte(look.Style + style)},
	"/page.js":  {"text/javascript; charset=utf-8", []byte(look.Script + script)},
	"/icon.svg": {"image/svg+xml", icon},
}

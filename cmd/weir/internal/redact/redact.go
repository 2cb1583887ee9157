// Package redact removes secrets from URLs before an error or a log repeats them.
package redact

import (
	"errors"
	"net/url"
	"strings"

	"github.com/weirlimit/weir/internal/shorten"
)

// URL returns an operator's URL or address in a form for errors and logs. It removes the
// user, the password, the query, and text after a colon that is not a port. It accepts any
// text, because a mistyped URL may hold a password.
func URL(text string) string {
	if i := strings.LastIndexByte(text, '@'); i >= 0 {
		text = "…" + text[i:]
	}
	var query string
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		text, query = text[:i], text[i:i+1]+"…"
	}
	scheme, rest, found := strings.Cut(text, "://")
	if found {
		scheme += "://"
	} else {
		scheme, rest = "", text
	}
	host, path, slash := strings.Cut(rest, "/")
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !isPort(host[i+1:]) || strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		host, path, slash = host[:strings.IndexByte(host, ':')+1]+"…", "", false
	}
	if slash {
		host += "/" + path
	}
	return shorten.Text(scheme+host) + query
}

// isPort reports whether text is one to five digits, or the end of an IPv6 address.
func isPort(text string) bool {
	return len(text) >= 1 && len(text) <= 5 && strings.Trim(text, "0123456789") == "" || strings.HasSuffix(text, "]")
}

// Error returns the cause of an HTTP client's error, because the error's text repeats the
// whole URL. Any other error is returned unchanged.
func Error(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

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
	query := ""
	if i := strings.IndexAny(text, "?#"); i >= 0 {
		query = text[i:i+1] + "…"
		text = text[:i]
	}
	scheme := ""
	if before, after, found := strings.Cut(text, "://"); found {
		scheme = before + "://"
		text = after
	}
	host, path, found := strings.Cut(text, "/")
	switch {
	case !isHost(host):
		beginning, _, _ := strings.Cut(host, ":")
		text = beginning + ":…"
	case found:
		text = host + "/" + path
	}
	return shorten.Text(scheme+text) + query
}

// isHost reports whether a text has no colon but that before a port, and those of an IPv6 address
// in brackets.
func isHost(text string) bool {
	i := strings.LastIndexByte(text, ':')
	if i < 0 {
		return true
	}
	isAddress := strings.HasPrefix(text, "[")
	return isPort(text[i+1:]) && (isAddress || strings.Count(text, ":") == 1)
}

// isPort reports whether text is one to five digits, or the end of an IPv6 address.
func isPort(text string) bool {
	return len(text) >= 1 && len(text) <= 5 && strings.Trim(text, "0123456789") == "" ||
		strings.HasSuffix(text, "]")
}

// Error returns the cause of an HTTP client's error, because the error's text repeats the
// whole URL. Any other error is returned unchanged.
func Error(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		return e.Err
	}
	return err
}

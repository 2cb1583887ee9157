package weirhttp

import (
	"net/netip"
	"regexp"
	"strings"

	"github.com/weirlimit/weir/internal/clientaddr"
)

// cutForwarded splits the last element off the text of Forwarded and returns its
// parameter "for". It reads from the right, so that an open quote of the client cannot
// hide the elements that proxies appended.
func cutForwarded(text string) (a netip.Addr, rest string, more, ok bool) {
	rest, element, more := clientaddr.CutAt(text, lastComma(text))
	node, ok := forParameter(strings.Trim(element, " \t"))
	if ok {
		a, ok = clientaddr.ParseNode(node)
	}
	return a, rest, more, ok
}

// lastComma returns the index of the last comma outside a quoted string, or -1.
func lastComma(text string) int {
	quoted := false
	for i := len(text) - 1; i >= 0; i-- {
		switch {
		case text[i] == '"' && !(quoted && isEscaped(text, i)):
			quoted = !quoted
		case text[i] == ',' && !quoted:
			return i
		}
	}
	return -1
}

// isEscaped reports whether an odd number of backslashes precedes text[i].
func isEscaped(text string, i int) bool {
	n := 0
	for i--; i >= 0 && text[i] == '\\'; i-- {
		n++
	}
	return n%2 == 1
}

// A forwarded-element (RFC 7239, 4) is pairs of a token and a value, separated by
// semicolons. A value is a token (RFC 9110, 5.6.2) or a quoted string.
const (
	token = "([!#$%&'*+.^_`|~0-9A-Za-z-]+)"
	pair  = token + "=(?:" + token + `|"((?s:[^"\\]|\\.)*)")`
)

var (
	pairs            = regexp.MustCompile(pair)
	forwardedElement = regexp.MustCompile("^" + pair + "(?:;" + pair + ")*$")
	escaped          = regexp.MustCompile(`(?s)\\(.)`)
)

// forParameter returns the value of the parameter "for" of one forwarded-element. The
// whole element must be well formed and have the parameter once.
func forParameter(element string) (node string, found bool) {
	if !forwardedElement.MatchString(element) {
		return "", false
	}
	for _, m := range pairs.FindAllStringSubmatch(element, -1) {
		if !strings.EqualFold(m[1], "for") {
			continue
		}
		if found {
			return "", false
		}
		node, found = m[2]+escaped.ReplaceAllString(m[3], "$1"), true
	}
	return node, found
}

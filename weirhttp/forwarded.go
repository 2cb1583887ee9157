package weirhttp

import (
	"net/netip"
	"strconv"
	"strings"
)

// cutForwardedFor splits the last element off the text of X-Forwarded-For.
func cutForwardedFor(text string) (a netip.Addr, rest string, more, ok bool) {
	rest, element, more := cutLast(text, strings.LastIndexByte(text, ','))
	a, ok = parseNode(strings.Trim(element, " \t"))
	return a, rest, more, ok
}

// cutForwarded splits the last element off the text of Forwarded and returns its
// parameter "for". It reads from the right, so that an open quote of the client cannot
// hide the elements that proxies appended.
func cutForwarded(text string) (a netip.Addr, rest string, more, ok bool) {
	rest, element, more := cutLast(text, lastComma(text))
	node, ok := forParameter(element)
	if !ok {
		return a, rest, more, false
	}
	a, ok = parseNode(node)
	return a, rest, more, ok
}

// cutLast splits text around the comma at index i. If i < 0, element is the whole text.
func cutLast(text string, i int) (rest, element string, more bool) {
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+1:], true
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

// forParameter returns the value of the parameter "for" of one forwarded-element
// (RFC 7239, 4). The whole element must be well formed and have the parameter once.
func forParameter(element string) (node string, found bool) {
	rest := strings.Trim(element, " \t")
	for {
		name, tail, ok := strings.Cut(rest, "=")
		if !ok || !isToken(name) {
			return "", false
		}
		value, tail, ok := parameterValue(tail)
		if !ok {
			return "", false
		}
		if strings.EqualFold(name, "for") {
			if found {
				return "", false
			}
			node, found = value, true
		}
		if tail == "" {
			return node, found
		}
		if tail[0] != ';' {
			return "", false
		}
		rest = tail[1:]
	}
}

// parameterValue splits a token or a quoted string off the front of s.
func parameterValue(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, ';')
		if end < 0 {
			end = len(s)
		}
		return s[:end], s[end:], isToken(s[:end])
	}
	var b []byte
	for i := 1; i < len(s); i++ {
		switch c := s[i]; c {
		case '"':
			return string(b), s[i+1:], true
		case '\\':
			if i++; i == len(s) {
				return "", "", false
			}
			b = append(b, s[i])
		default:
			b = append(b, c)
		}
	}
	return "", "", false
}

// isToken reports whether s is a token (RFC 9110, 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9'
		if !alnum && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// parseNode reads an address in the forms that peers and proxies write: 192.0.2.1,
// 192.0.2.1:80, 2001:db8::1, [2001:db8::1] and [2001:db8::1]:80, with or without a zone.
// The result is unmapped and has no zone.
func parseNode(s string) (netip.Addr, bool) {
	if host, port, ok := strings.Cut(s, "]"); ok {
		if !strings.HasPrefix(host, "[") || !isPort(port) {
			return netip.Addr{}, false
		}
		a, err := netip.ParseAddr(host[1:])
		return a.Unmap().WithZone(""), err == nil && a.Is6()
	}
	if strings.Count(s, ":") == 1 {
		host, port, _ := strings.Cut(s, ":")
		if !isPort(":" + port) {
			return netip.Addr{}, false
		}
		s = host
	}
	a, err := netip.ParseAddr(s)
	return a.Unmap().WithZone(""), err == nil
}

// isPort reports whether s is empty, or a colon and a number of 16 bits.
func isPort(s string) bool {
	if s == "" {
		return true
	}
	_, err := strconv.ParseUint(s[1:], 10, 16)
	return s[0] == ':' && err == nil
}

package server

import (
	"net/http"
	"strings"

	"github.com/weirlimit/weir/internal/answer"
	"github.com/weirlimit/weir/weirhttp"
)

// Prefixes that make a part of a gate's query name the header field in which a
// proxy sends a dimension's value, for proxies that cannot write it into the
// query: header.user=X-User, address.ip=X-Forwarded-For. A dimension that is
// called so is written key.header.user.
const (
	headerPrefix  = "header."  // the field as it stands
	addressPrefix = "address." // the field holds an address, or a list whose last is the one that counts
)

// fromHeader replaces the name of a field by what stands in it, if name has one of
// the prefixes. A field that is missing, empty or there twice is an error: such
// requests must not share a history, nor choose one.
func fromHeader(h http.Header, name, value string) (dimension, found string, err error) {
	dimension, address := strings.CutPrefix(name, addressPrefix)
	if !address {
		var header bool
		if dimension, header = strings.CutPrefix(name, headerPrefix); !header {
			return name, value, nil
		}
	}
	lines := h.Values(value)
	switch {
	case len(lines) == 0 || lines[len(lines)-1] == "":
		return "", "", badInput("the request has no header field " + answer.Shown(value) + ", in which the value of " + answer.Shown(dimension) + " must stand")
	case address:
		found, err = lastAddress(lines[len(lines)-1])
		if err != nil {
			return "", "", badInput("the header field " + answer.Shown(value) + " does not end with an IP address")
		}
	case len(lines) > 1:
		return "", "", badInput("the header field " + answer.Shown(value) + " is there more than once; the proxy must set it, not add to it")
	default:
		found = lines[0]
	}
	return keyPrefix + dimension, found, nil
}

// lastAddress returns the last address of a list in the form of weirhttp.ClientIP.
// It is the one that the proxy which asks has added itself: what stands left of it
// anybody may have made up.
func lastAddress(list string) (string, error) {
	last := list[strings.LastIndexByte(list, ',')+1:]
	return weirhttp.ClientIP()(&http.Request{RemoteAddr: strings.TrimSpace(last)})
}

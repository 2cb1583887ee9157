package replay

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/internal/clientaddr"
)

// LogKey is the source of one dimension in an access log.
type LogKey struct {
	Dimension string
	Field     accesslog.Field
	Prefix    string // not "": the value is this prefix, for the paths that begin with it
}

const pathPrefix = "path:"

// ParseLogKey reads DIMENSION=FIELD, such as ip=remote_addr or route=path:/api/.
func ParseLogKey(text string) (LogKey, error) {
	name, from, ok := strings.Cut(text, "=")
	if !ok || name == "" || from == "" {
		return LogKey{}, fmt.Errorf("%q is no key; write DIMENSION=FIELD, such as ip=remote_addr", text)
	}
	if prefix, ok := strings.CutPrefix(from, pathPrefix); ok {
		if !strings.HasPrefix(prefix, "/") {
			return LogKey{}, fmt.Errorf("%q: a path begins with /, such as path:/api/", text)
		}
		return LogKey{name, accesslog.Path, prefix}, nil
	}
	f, err := accesslog.ParseField(from)
	if err != nil {
		return LogKey{}, fmt.Errorf("%q: %w", text, err)
	}
	return LogKey{Dimension: name, Field: f}, nil
}

// ParseProxies reads addresses and ranges of trusted proxies, such as 10.0.0.0/8, with
// commas between them.
func ParseProxies(text string) (all []netip.Prefix, err error) {
	for one := range strings.SplitSeq(text, ",") {
		one = strings.TrimSpace(one)
		p, err := netip.ParsePrefix(one)
		if err != nil {
			a, addrErr := netip.ParseAddr(one)
			if addrErr != nil || a.Zone() != "" {
				return nil, fmt.Errorf("%q is no address and no range; write 10.0.0.1 or 10.0.0.0/8", one)
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		all = append(all, p)
	}
	return all, nil
}

// LogWhere selects the requests with a field that matches a pattern.
type LogWhere struct {
	Field accesslog.Field
	Glob  string // * is any text, ? one character; a field without value is an empty text
	glob  *regexp.Regexp
}

// ParseLogWhere reads FIELD=GLOB, such as path=/search*.
func ParseLogWhere(text string) (LogWhere, error) {
	name, glob, ok := strings.Cut(text, "=")
	if !ok {
		return LogWhere{}, fmt.Errorf("%q is no condition; write FIELD=GLOB, such as path=/search*", text)
	}
	f, err := accesslog.ParseField(name)
	if err != nil {
		return LogWhere{}, fmt.Errorf("%q: %w", text, err)
	}
	if !utf8.ValidString(glob) {
		return LogWhere{}, fmt.Errorf("%q: the pattern is not UTF-8; write * or ? for such bytes", text)
	}
	return LogWhere{f, glob, newGlob(glob)}, nil
}

// newGlob compiles a pattern.
func newGlob(glob string) *regexp.Regexp {
	words := strings.NewReplacer(`\*`, ".*", `\?`, ".")
	return regexp.MustCompile("(?s)^" + words.Replace(regexp.QuoteMeta(glob)) + "$")
}

// LogUnits is the number of units of each request.
type LogUnits struct {
	N     int64 // 0 … weir.MaxUnits; of Bytes: ignored
	Bytes bool  // the size of the response; 0 if the log has none
}

// ParseLogUnits reads a number or the word bytes.
func ParseLogUnits(text string) (LogUnits, error) {
	if text == "bytes" {
		return LogUnits{Bytes: true}, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > weir.MaxUnits {
		return LogUnits{}, fmt.Errorf("%q is no number of units; write 0 to %d, or bytes", text, int64(weir.MaxUnits))
	}
	return LogUnits{N: n}, nil
}

// addresses maps client addresses to the form that counts: IPv6 by /64, as live.
type addresses struct{ proxies clientaddr.Proxies }

// key returns the counted form of the client address of a request. A host name stays as it
// is. ok is false if a trusted proxy wrote an element of X-Forwarded-For that is not an
// address.
func (a *addresses) key(e *accesslog.Entry, peer string) (key string, ok bool) {
	addr, err := netip.ParseAddr(peer)
	if err != nil {
		return peer, true
	}
	list, more := e.Get(accesslog.Forwarded) // read with proxies only
	addr, ok = a.proxies.Follow(addr.Unmap().WithZone(""), string(list), more)
	return clientaddr.Key(addr, clientaddr.Bits), ok
}

// value returns the value of a dimension, from the keys with its name: the first field, or
// the longest prefix that fits.
func (a *addresses) value(keys []LogKey, e *accesslog.Entry, out []byte) ([]byte, bool) {
	longest, found := 0, false
	for i := range keys {
		b, ok := e.Get(keys[i].Field)
		switch {
		case !ok:
		case keys[i].Prefix != "":
			if len(keys[i].Prefix) > longest && bytes.HasPrefix(b, []byte(keys[i].Prefix)) {
				longest, found = len(keys[i].Prefix), true
				out = append(out[:0], keys[i].Prefix...)
			}
		case keys[i].Field == accesslog.RemoteAddr:
			key, ok := a.key(e, string(b))
			return append(out, key...), ok
		default:
			return append(out, b...), true
		}
	}
	return out, found
}

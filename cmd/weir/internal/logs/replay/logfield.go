package replay

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

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
	Glob  string // * is any text, ? one byte; a field without value is an empty text
	text  string
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
	return LogWhere{f, glob, text}, nil
}

// matches reports whether text matches a pattern. A mismatch after * continues one byte
// later, so the time is at most the product of both lengths.
func matches(glob string, text []byte) bool {
	i, j, star, from := 0, 0, -1, 0
	for j < len(text) {
		switch {
		case i < len(glob) && glob[i] == '*':
			star, from = i, j
			i++
		case i < len(glob) && (glob[i] == '?' || glob[i] == text[j]):
			i++
			j++
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[i:], "*") == ""
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

// addressSlots bounds the memory of the cache of addresses.
const addressSlots = 1 << 14

// addresses maps client addresses to the form that counts: IPv6 by /64, as live. It
// remembers the last address of each slot.
type addresses struct {
	proxies clientaddr.Proxies
	slots   [addressSlots]struct{ raw, key string }
	one     []byte
}

// key returns the counted form of the client address of a request. ok is false if a trusted
// proxy wrote an element of X-Forwarded-For that is not an address.
func (a *addresses) key(e *accesslog.Entry, peer []byte) (key string, ok bool) {
	raw := peer
	if len(a.proxies) > 0 {
		if list, ok := e.Forwarded(); ok {
			raw = append(append(append(a.one[:0], peer...), 0), list...)
			a.one = raw
		}
	}
	hash := uint32(2166136261) // FNV-1a
	for _, c := range raw {
		hash = (hash ^ uint32(c)) * 16777619
	}
	slot := &a.slots[hash%addressSlots]
	if slot.raw != string(raw) || slot.raw == "" {
		slot.raw = string(raw)
		slot.key = a.counted(slot.raw)
	}
	return slot.key, slot.key != ""
}

// counted returns the counted form of a peer, with the list of X-Forwarded-For behind a zero
// byte, or "" if the list is wrong. A host name stays as it is.
func (a *addresses) counted(raw string) string {
	peer, list, more := strings.Cut(raw, "\x00")
	addr, err := netip.ParseAddr(peer)
	if err != nil {
		return peer
	}
	addr, ok := a.proxies.Follow(addr.Unmap().WithZone(""), list, more)
	if !ok {
		return ""
	}
	return clientaddr.Key(addr, clientaddr.Bits)
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
			key, ok := a.key(e, b)
			return append(out, key...), ok
		default:
			return append(out, b...), true
		}
	}
	return out, found
}

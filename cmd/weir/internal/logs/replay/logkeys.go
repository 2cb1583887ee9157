package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/logs/accesslog"
	"github.com/weirlimit/weir/internal/clientaddr"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
)

// LogOptions select the requests of access logs and their keys.
type LogOptions struct {
	Policy string     // the deciding policy; "" = each one that has a key for all dimensions
	Keys   []LogKey   // several path prefixes may have one dimension
	Where  []LogWhere // all must match
	Units  LogUnits   // the zero LogUnits are 0 units

	// Traits are fields that the caller of [LogKeys.Each] reads of each entry.
	Traits []accesslog.Field

	// TrustedProxies are the addresses of the proxies in front of the server. The client
	// address is then the first one in X-Forwarded-For, from the right, that is none of
	// them, as with weirhttp.TrustedProxies.
	TrustedProxies []netip.Prefix
}

// LogKey is the source of one dimension in an access log.
type LogKey struct {
	Dimension string
	Field     accesslog.Field
	Prefix    string // not "": the value is this prefix, for the paths that begin with it
}

// ParseLogKey reads DIMENSION=FIELD, such as ip=remote_addr or route=path:/api/.
func ParseLogKey(text string) (LogKey, error) {
	name, from, ok := strings.Cut(text, "=")
	if !ok || name == "" || from == "" {
		return LogKey{}, fmt.Errorf("%q is no key; write DIMENSION=FIELD, such as ip=remote_addr",
			text)
	}
	if prefix, ok := strings.CutPrefix(from, "path:"); ok {
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

// ParseProxy reads the address or the range of trusted proxies, such as 10.0.0.0/8.
func ParseProxy(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err == nil {
		return p, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return p, fmt.Errorf("%q is no address and no range; write 10.0.0.1 or 10.0.0.0/8", text)
	}
	return netip.PrefixFrom(a, a.BitLen()), nil
}

// LogWhere selects the requests with a field that matches a pattern, or those without.
type LogWhere struct {
	Field accesslog.Field
	Glob  string // * is any text, ? one character; a field without value is an empty text
	Not   bool   // selects the requests that do not match
	glob  *regexp.Regexp
}

// ParseLogWhere reads FIELD=GLOB, such as path=/search*, or FIELD!=GLOB.
func ParseLogWhere(text string) (LogWhere, error) {
	name, glob, ok := strings.Cut(text, "=")
	if i := strings.IndexAny(text, "<>~!"); !ok && i > 0 {
		name = text[:i+1]
	} else if !ok {
		return LogWhere{}, fmt.Errorf("%q is no condition; "+
			"write FIELD=GLOB, such as path=/search*, or FIELD!=GLOB", text)
	}
	name, isNot := strings.CutSuffix(name, "!")
	isNot = isNot && ok
	field := strings.TrimRight(name, "!<>~^*$ ")
	isOtherOperator := strings.HasPrefix(glob, "=") || strings.HasPrefix(glob, "~")
	if field != name || !ok || isOtherOperator {
		return LogWhere{}, fmt.Errorf("%q has another operator than = and !=, "+
			"which select what matches a pattern and what does not; write %s=GLOB or %s!=GLOB",
			text, field, field)
	}
	f, err := accesslog.ParseField(name)
	if err != nil {
		return LogWhere{}, fmt.Errorf("%q: %w", text, err)
	}
	if _, err := netip.ParsePrefix(glob); err == nil && f == accesslog.RemoteAddr {
		return LogWhere{}, fmt.Errorf("%q compares a text, and %s is a network; "+
			"write a pattern of addresses, such as %s=10.*", text, glob, field)
	}
	if !utf8.ValidString(glob) {
		return LogWhere{}, fmt.Errorf("%q: the pattern is not UTF-8; write * or ? for such bytes",
			text)
	}
	words := strings.NewReplacer(`\*`, ".*", `\?`, ".")
	pattern := regexp.MustCompile("(?s)^" + words.Replace(regexp.QuoteMeta(glob)) + "$")
	return LogWhere{Field: f, Glob: glob, Not: isNot, glob: pattern}, nil
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
		return LogUnits{}, fmt.Errorf("%q is no number of units; write 0 to %d, or bytes", text,
			int64(weir.MaxUnits))
	}
	return LogUnits{N: n}, nil
}

// LogKeys reads the keys and the units of the requests of access logs that all conditions
// select. It is used by one goroutine at a time.
type LogKeys struct {
	LogOptions
	dimensions []*dimension // those of Keys
	proxies    clientaddr.Proxies
	one        []byte // a value
	encoded    []byte // a key
	counts     LogCounts
	behind     proxied
	listed     *LogKey // the first key with a list of addresses as its value; nil = none

	// Fields that some line had, for errors.
	read      []bool // by Where: the field was read
	seen      []bool // by Where: the field
	leftOut   []bool // by Where: it left out a request
	sized     bool   // a size
	proxied   bool   // a trusted proxy as its peer
	forwarded bool   // an address, and X-Forwarded-For
	hosts     bool   // a host name in place of an address
}

// NewLogKeys returns a reader of keys. The error is that of two sources for one dimension.
func NewLogKeys(o LogOptions) (*LogKeys, error) {
	s := &LogKeys{
		LogOptions: o,
		read:       make([]bool, len(o.Where)),
		seen:       make([]bool, len(o.Where)),
		leftOut:    make([]bool, len(o.Where)),
	}
	for i, k := range o.Keys {
		if slices.ContainsFunc(o.Keys[:i], func(other LogKey) bool {
			return other.Dimension == k.Dimension && (other.Prefix == "" || k.Prefix == "")
		}) {
			return nil, fmt.Errorf("the key %q is given twice; "+
				"only path prefixes can share a dimension", k.Dimension)
		}
		if !slices.Contains(s.Dimensions(), k.Dimension) {
			s.dimensions = append(s.dimensions, s.dimension(k.Dimension))
		}
	}
	for _, p := range o.TrustedProxies {
		s.proxies = s.proxies.With(p)
	}
	return s, nil
}

// fields returns the fields that are read.
func (s *LogKeys) fields() (all []accesslog.Field) {
	for _, k := range s.Keys {
		all = append(all, k.Field)
	}
	for _, w := range s.Where {
		all = append(all, w.Field)
	}
	isClient := func(k LogKey) bool { return k.Field == accesslog.RemoteAddr }
	if slices.ContainsFunc(s.Keys, isClient) {
		all = append(all, forwardingFields...)
	} else if len(s.TrustedProxies) > 0 { // for conditions
		all = append(all, accesslog.Forwarded)
	}
	if s.Units.Bytes {
		all = append(all, accesslog.Bytes)
	}
	return append(all, s.Traits...)
}

// each calls visit with every request of a log and its units, until an error. The others are
// counted. An error of reading is a *[LogError].
func (s *LogKeys) each(log *accesslog.Reader, visit func(e *accesslog.Entry, n int64) error) error {
	for e, err := range log.Entries(s.fields()...) {
		if err != nil {
			return &LogError{err.Error()}
		}
		if !s.matches(e) {
			s.counts.count(outside)
		} else if n, ok := s.unitsOf(e); !ok {
			s.counts.count(badUnits)
		} else if err = visit(e, n); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether all conditions match.
func (s *LogKeys) matches(e *accesslog.Entry) bool {
	for i := range s.Where {
		b, ok := s.comparedValue(s.Where[i].Field, e)
		s.read[i] = true
		s.seen[i] = s.seen[i] || ok
		if s.Where[i].glob.Match(b) == s.Where[i].Not {
			s.leftOut[i] = true
			return false
		}
	}
	return true
}

// comparedValue returns the text of a field that a condition compares, which is nil without a value.
// The client address is that behind trusted proxies, as in a key.
func (s *LogKeys) comparedValue(f accesslog.Field, e *accesslog.Entry) (text []byte, ok bool) {
	text, ok = e.Get(f)
	if !ok {
		return nil, false
	}
	if f != accesslog.RemoteAddr || s.proxies == nil {
		return text, true
	}
	addr, err := netip.ParseAddr(string(text))
	if clientaddr.IsSocket(string(text)) {
		addr = loopback
	} else if err != nil {
		return text, true
	}
	list, more := e.Get(accesslog.Forwarded)
	addr = addr.Unmap().WithZone("")
	if !more || !s.proxies.Trusts(addr) {
		return text, true
	}
	if addr, ok = s.proxies.Follow(addr, string(list), more); !ok {
		return nil, false
	}
	return []byte(addr.String()), true
}

// unitsOf returns the units of a request. ok is false if its size is no number.
func (s *LogKeys) unitsOf(e *accesslog.Entry) (n int64, ok bool) {
	if !s.Units.Bytes {
		return s.Units.N, true
	}
	b, ok := e.Get(accesslog.Bytes)
	if !ok {
		return 0, true
	}
	s.sized = true
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && n >= 0 && n <= weir.MaxUnits
}

// dimension is a value of a key and its sources.
type dimension struct {
	name    string
	sources []LogKey
	had     bool // some line had a value

	// form returns the counted form of a value; nil if all values count as they are written.
	form func(value string) (string, error)
}

// dimension returns a dimension with its sources among all keys.
func (s *LogKeys) dimension(name string) *dimension {
	d := &dimension{name: name}
	for _, k := range s.Keys {
		if k.Dimension == name {
			d.sources = append(d.sources, k)
		}
	}
	return d
}

// readKey sets encoded to the encoded key of a request. The outcome is allowed, noKey, outside, or
// rejected for a value that is not an address.
func (s *LogKeys) readKey(all []*dimension, e *accesslog.Entry) logOutcome {
	outcome := allowed
	s.encoded = s.encoded[:0]
	for _, d := range all {
		var ok bool
		s.one, ok = s.appendValue(d.sources, e, s.one[:0])
		switch {
		case ok && d.form != nil:
			d.had = true
			form, err := d.form(string(s.one))
			if err != nil {
				s.counts.Reason = cmp.Or(s.counts.Reason, err.Error())
				return rejected
			}
			s.encoded = keyenc.Append(s.encoded, form)
		case ok:
			d.had = true
			s.encoded = keyenc.Append(s.encoded, s.one)
		case d.sources[0].Prefix != "":
			outcome = outside
		case outcome == allowed:
			outcome = noKey
		}
	}
	return outcome
}

// appendValue appends the value of a dimension, from the keys with its name: the first field, or
// the longest prefix that fits.
func (s *LogKeys) appendValue(keys []LogKey, e *accesslog.Entry, out []byte) ([]byte, bool) {
	longest, found := 0, false
	for i := range keys {
		b, ok := e.Get(keys[i].Field)
		switch {
		case !ok:
		case keys[i].Prefix != "":
			if len(keys[i].Prefix) > longest && bytes.HasPrefix(b, []byte(keys[i].Prefix)) {
				longest = len(keys[i].Prefix)
				found = true
				out = append(out[:0], keys[i].Prefix...)
			}
		case keys[i].Field == accesslog.RemoteAddr:
			client, ok := s.clientKey(keys[i].Dimension, e, string(b))
			return append(out, client...), ok
		default:
			if s.listed == nil && clientaddr.IsList(string(b)) {
				s.listed = &keys[i]
			}
			return append(out, b...), true
		}
	}
	return out, found
}

// clientKey returns the counted form of the client address of a request: IPv6 by /64, as live.
// A host name stays as it is. A Unix socket is trusted as loopback is, because only this host
// reaches both. ok is false if a trusted proxy wrote an element of X-Forwarded-For that is not an
// address.
func (s *LogKeys) clientKey(dimension string, e *accesslog.Entry, peer string) (key string, ok bool) {
	addr, err := netip.ParseAddr(peer)
	isSocket := clientaddr.IsSocket(peer)
	if isSocket {
		addr = loopback
	} else if err != nil {
		s.hosts = true
		return peer, true
	}
	list, more := e.Get(accesslog.Forwarded)
	isPlain := addr.Is4() && !more // its counted form is its text
	addr = addr.Unmap().WithZone("")
	trusts := s.proxies.Trusts(addr)
	s.proxied = s.proxied || trusts
	s.forwarded = s.forwarded || more
	if addr, ok = s.proxies.Follow(addr, string(list), more); ok {
		s.behind.add(dimension, addr, s.proxies, e)
	}
	if isSocket && !(trusts && more) {
		s.hosts = true
		return peer, true
	}
	if isPlain {
		return peer, true
	}
	return clientaddr.Key(addr, clientaddr.Bits), ok
}

// problem returns the error of logs without a readable line, or of a field that no line has.
func (s *LogKeys) problem(all []*dimension, log *accesslog.Reader) error {
	lines := &s.counts.Log
	if lines.Entries == 0 {
		if len(lines.First) > 0 {
			return &LogError{"no line is readable; the first is " + lines.First[0].Error()}
		}
		if lines.Zeros > 0 {
			return &LogError{fmt.Sprintf("the logs have no lines, but %d zero bytes", lines.Zeros)}
		}
		return &LogError{"the logs have no lines"}
	}
	fields := "; the lines have " + strings.Join(log.Names(), ", ")
	for i, w := range s.Where {
		if s.read[i] && !s.seen[i] && w.Glob != "" {
			return &LogError{fmt.Sprintf("no line has the field %s%s", w.Field, fields)}
		}
	}
	skipped := s.counts.Filtered + s.counts.BadUnits
	if s.Units.Bytes && !s.sized && skipped < lines.Entries {
		return &LogError{fmt.Sprintf("no line has the field %s of --units%s",
			accesslog.Bytes, fields)}
	}
	if skipped == lines.Entries {
		return nil // no key was read
	}
	if s.proxied && !s.forwarded {
		return &LogError{"no line has the field x-forwarded-for of --trusted-proxies" + fields}
	}
	for _, d := range all {
		if !d.had && d.sources[0].Prefix == "" {
			return s.problemOf(&d.sources[0], log)
		}
	}
	return nil
}

// problemOf returns the error of a key without a value in any line.
func (s *LogKeys) problemOf(k *LogKey, log *accesslog.Reader) error {
	n := s.counts.Log.Entries
	switch {
	case s.forwarded && k.Field == accesslog.RemoteAddr:
		return &LogError{fmt.Sprintf("x-forwarded-for, as trusted proxies wrote it, "+
			"has no address in any of %d lines; log addresses, or choose another field than %s",
			n, k.Field)}
	case slices.Contains(log.Names(), string(k.Field)):
		return &LogError{fmt.Sprintf("the field %s of the key %s has no value in any of "+
			"%d lines; log it, or choose another field", k.Field, k.Dimension, n)}
	}
	return &LogError{fmt.Sprintf("no line has the field %s of the key %s; the lines have %s",
		k.Field, k.Dimension, strings.Join(log.Names(), ", "))}
}

// LogError is a mistake in the logs or in the options for them.
type LogError struct{ Problem string }

// Error returns the problem.
func (e *LogError) Error() string { return e.Problem }

// Dimensions returns the names of the values of a key, in the order of LogOptions.Keys.
func (s *LogKeys) Dimensions() (names []string) {
	for _, d := range s.dimensions {
		names = append(names, d.name)
	}
	return names
}

// Addresses returns the dimensions with only addresses as their values, in the counted form.
func (s *LogKeys) Addresses() (names []string) {
	for _, d := range s.dimensions {
		if d.sources[0].Field == accesslog.RemoteAddr && d.had && !s.hosts {
			names = append(names, d.name)
		}
	}
	return names
}

// Each calls visit with the encoded key, the entry and the units of every request that has
// them, until an error. The others grow one of the counts of s. Key and entry are valid until
// visit returns. An error of reading is a *[LogError].
func (s *LogKeys) Each(log *accesslog.Reader, visit func(key []byte, e *accesslog.Entry, n int64) error) error {
	isLong := func(v string) bool { return len(v) > weir.MaxValueBytes }
	return s.each(log, func(e *accesslog.Entry, n int64) error {
		outcome := s.readKey(s.dimensions, e)
		mayBeLong := outcome == allowed && len(s.encoded) > weir.MaxValueBytes
		if mayBeLong && slices.ContainsFunc(values(string(s.encoded), nil), isLong) {
			outcome = rejected
			s.counts.Reason = "a value of its key is too long"
		}
		if s.counts.count(outcome) {
			return visit(s.encoded, e, n)
		}
		return nil
	})
}

// Named returns the values of an encoded key with their names.
func (s *LogKeys) Named(key string) Key { return named(s.Dimensions(), key) }

// Counts returns the counts of a log that was read. The error is the *[LogError] of one
// without a readable line, or of a field that no line has.
func (s *LogKeys) Counts(log *accesslog.Reader) (LogCounts, error) {
	s.counts.Log = log.Stats()
	s.counts.Doubt = s.doubt(log)
	s.counts.Idle = s.idleConditions()
	return s.counts, s.problem(s.dimensions, log)
}

// idleConditions returns the conditions FIELD!=GLOB that were compared and left out no request.
func (s *LogKeys) idleConditions() (all []string) {
	for i, w := range s.Where {
		if w.Not && s.read[i] && !s.leftOut[i] {
			all = append(all, string(w.Field)+"!="+w.Glob)
		}
	}
	return all
}

// doubt returns the reason why the values of a key are probably not those of clients, with the next
// step; "" if there is none.
func (s *LogKeys) doubt(log *accesslog.Reader) string {
	if s.listed == nil {
		return s.behind.doubt(log.Names())
	}
	k := s.listed
	return fmt.Sprintf("values of the key %s are lists of addresses, "+
		"of which a client can write the left part, so it can count as many clients; "+
		"in place of %s, add --key %s=%s --trusted-proxies RANGES, "+
		"those of your proxies or CDN", k.Dimension, k.Field, k.Dimension, accesslog.RemoteAddr)
}

// values appends the values of an encoded key. They share its memory.
func values(key string, out []string) []string {
	for len(key) > 0 {
		n, size := binary.Uvarint([]byte(key[:min(len(key), binary.MaxVarintLen64)]))
		end := size + int(n)
		out = append(out, key[size:end])
		key = key[end:]
	}
	return out
}

// named returns the values of an encoded key with their names.
func named(names []string, key string) (all Key) {
	for i, v := range values(key, nil) {
		all = append(all, enforce.Pair{Name: names[i], Value: v})
	}
	return all
}

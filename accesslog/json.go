package accesslog

import (
	"bytes"
	"slices"
	"strings"
)

// member is a member of an object.
type member struct{ name, value span }

// object is the members of a format in JSON. It remembers the place of each member in the
// last line, so it is used by one goroutine.
type object struct {
	from         [facts][]place // candidates, the best first
	time         []place
	headers      []string // dotted paths of objects that hold the fields of the header
	headerPrefix string   // of members that hold a field of the header, such as http_
	isTrace      bool     // the time is in microseconds, and a line without units has one
	needs        string   // the member of every entry; "" = none
}

// place is the path of a member.
type place struct {
	path []string
	how  how
	last int // the index of the member in the last line
}

// places returns the places of dotted paths with spaces between them.
func places(h how, paths string) (all []place) {
	for _, path := range strings.Fields(paths) {
		all = append(all, place{path: strings.Split(path, "."), how: h})
	}
	return all
}

func newObject(o Options, time string, from map[fact][]place) *object {
	obj := &object{time: places(plain, time)}
	for f := remoteAddr; f < facts; f++ {
		obj.from[f] = from[f]
		if name := o.Fields[factNames[f]]; name != "" {
			h := plain
			switch f {
			case remoteAddr:
				h = lastAddress
			case path:
				h = pathOf
			}
			obj.from[f] = named(name, h)
		}
	}
	if name := o.Fields["time"]; name != "" {
		obj.time = named(name, plain)
	}
	return obj
}

// named returns the places of a name that Options.Fields maps: a dotted path, or one member
// with dots in its name. Both may have spaces.
func named(name string, h how) []place {
	return []place{{path: strings.Split(name, "."), how: h}, {path: []string{name}, how: h}}
}

func join(all ...[]place) (out []place) {
	for _, p := range all {
		out = append(out, p...)
	}
	return out
}

func nginxObject(o Options) *object {
	obj := newObject(o, "msec time_iso8601 time timestamp @timestamp ts time_local date datetime start_time", map[fact][]place{
		remoteAddr: places(address, "remote_addr client_ip remote_ip client_addr remote_address client ip remote clientip"),
		method:     join(places(plain, "request_method method verb"), places(requestMethod, "request")),
		path:       join(places(pathOf, "request_uri uri path url"), places(requestPath, "request")),
		query:      join(places(plain, "args query_string query"), places(queryOf, "request_uri uri path url"), places(requestQuery, "request")),
		host:       join(places(plain, "http_host host server_name vhost domain"), places(requestHost, "request")),
		status:     places(plain, "status status_code code response_code"),
		size:       places(plain, "body_bytes_sent bytes_sent bytes size response_size"),
		user:       places(plain, "remote_user user user_id username"),
		userAgent:  places(plain, "http_user_agent user_agent agent useragent"),
		referer:    places(plain, "http_referer http_referrer referer referrer"),
	})
	obj.headerPrefix = "http_"
	return obj
}

func caddyObject(o Options) *object {
	obj := newObject(o, "ts", map[fact][]place{
		remoteAddr: places(address, "request.client_ip request.remote_ip request.remote_addr"),
		method:     places(plain, "request.method"),
		path:       places(pathOf, "request.uri"),
		query:      places(queryOf, "request.uri"),
		host:       places(plain, "request.host"),
		status:     places(plain, "status"),
		size:       places(plain, "size"),
		user:       places(plain, "user_id"),
		userAgent:  places(plain, "request.headers.User-Agent"),
		referer:    places(plain, "request.headers.Referer"),
	})
	obj.headers, obj.needs = []string{"request", "headers"}, "request"
	return obj
}

func traefikObject(o Options) *object {
	obj := newObject(o, "StartUTC StartLocal time", map[fact][]place{
		remoteAddr: places(lastAddress, "ClientHost ClientAddr"),
		method:     places(plain, "RequestMethod"),
		path:       places(pathOf, "RequestPath"),
		query:      places(queryOf, "RequestPath"),
		host:       places(plain, "RequestHost RequestAddr"),
		status:     places(plain, "DownstreamStatus OriginStatus"),
		size:       places(plain, "DownstreamContentSize OriginContentSize"),
		user:       places(plain, "ClientUsername"),
		userAgent:  places(plain, "request_User-Agent"),
		referer:    places(plain, "request_Referer"),
	})
	obj.headerPrefix = "request_"
	return obj
}

func envoyObject(o Options) *object {
	return newObject(o, "start_time timestamp time", map[fact][]place{
		remoteAddr: join(places(address, "downstream_remote_address downstream_remote_address_without_port downstream_direct_remote_address"), places(lastAddress, "x_forwarded_for")),
		method:     places(plain, "method request_method :method"),
		path:       places(pathOf, "path x_envoy_original_path x_envoy_origin_path :path"),
		query:      places(queryOf, "path x_envoy_original_path x_envoy_origin_path :path"),
		host:       places(plain, "authority :authority host"),
		status:     places(plain, "response_code status"),
		size:       places(plain, "bytes_sent"),
		user:       places(plain, "user"),
		userAgent:  places(plain, "user_agent"),
		referer:    places(plain, "referer"),
	})
}

// get returns the value of a field, or nil.
func (obj *object) get(e *Entry, f Field) []byte {
	switch f.fact {
	case none:
		return nil
	case own:
		s, ok := e.find(strings.Split(f.name, "."))
		if !ok {
			s, ok = findMember(e.line, e.members, f.name)
		}
		if !ok {
			return nil
		}
		return e.value(s)
	case header:
		return obj.header(e, f.name)
	}
	b := e.first(obj.from[f.fact])
	if b == nil && obj.isTrace && f.fact == size {
		return []byte("1")
	}
	return b
}

// header returns a field of the request's header.
func (obj *object) header(e *Entry, name string) []byte {
	if obj.headers != nil {
		if all, ok := e.find(obj.headers); ok && all.kind == kindObject {
			if s, ok := memberOf(e.line, all, "", name); ok {
				if s.kind == kindArray && name == forwardedFor {
					return e.joined(s)
				}
				return e.value(s)
			}
		}
		return nil
	}
	for _, prefix := range []string{obj.headerPrefix, ""} {
		for i := range e.members {
			if m := &e.members[i]; sameName(e.name(i), prefix, name) {
				return e.value(m.value)
			}
		}
	}
	return nil
}

// joined returns the values of an array with commas, as HTTP joins several lines of one
// field.
func (e *Entry) joined(array span) (list []byte) {
	for i := skipSpace(e.line, int(array.from)+1); i < int(array.to)-1; {
		s, next, err := valueAt(e.line[:array.to], i)
		if err != nil || s.kind == kindArray {
			break
		}
		if list == nil {
			list = e.value(s)
		} else {
			list = slices.Concat(list, []byte(","), e.value(s))
		}
		if i = skipSpace(e.line, next); e.line[i] == ',' {
			i = skipSpace(e.line, i+1)
		}
	}
	return list
}

// first returns the value of the first place that has one.
func (e *Entry) first(all []place) []byte {
	for i := range all {
		if b := e.at(&all[i]); len(b) > 0 {
			return b
		}
	}
	return nil
}

// at returns the value of a place, or nil.
func (e *Entry) at(p *place) []byte {
	if p.last >= len(e.members) || !sameName(e.name(p.last), "", p.path[0]) {
		p.last = 0
		for p.last < len(e.members) && !sameName(e.name(p.last), "", p.path[0]) {
			p.last++
		}
		if p.last == len(e.members) {
			return nil
		}
	}
	s := e.members[p.last].value
	for _, name := range p.path[1:] {
		ok := s.kind == kindObject
		if ok {
			s, ok = memberOf(e.line, s, "", name)
		}
		if !ok {
			return nil
		}
	}
	return e.derive(e.value(s), p.how)
}

func (e *Entry) name(i int) []byte {
	return e.line[e.members[i].name.from:e.members[i].name.to]
}

// find returns the value at a path.
func (e *Entry) find(path []string) (s span, ok bool) {
	s, ok = findMember(e.line, e.members, path[0])
	for _, name := range path[1:] {
		if !ok || s.kind != kindObject {
			return s, false
		}
		s, ok = memberOf(e.line, s, "", name)
	}
	return s, ok
}

// findMember returns the value of the first member with a name.
func findMember(line []byte, members []member, name string) (span, bool) {
	for _, m := range members {
		if sameName(line[m.name.from:m.name.to], "", name) {
			return m.value, true
		}
	}
	return span{}, false
}

// memberOf returns a member of a nested object.
func memberOf(line []byte, of span, prefix, name string) (value span, ok bool) {
	walkObject(line, int(of.from), func(m member) bool {
		if sameName(line[m.name.from:m.name.to], prefix, name) {
			value, ok = m.value, true
		}
		return !ok
	})
	return value, ok
}

// sameName reports whether b is prefix and name. Letter case, - and _ are equal.
func sameName(b []byte, prefix, name string) bool {
	if len(b) != len(prefix)+len(name) || len(b) == 0 {
		return false
	}
	for i, c := range b {
		var d byte
		if i < len(prefix) {
			d = prefix[i]
		} else {
			d = name[i-len(prefix)]
		}
		if c != d && folded[c] != folded[d] {
			return false
		}
	}
	return true
}

// folded maps letters to lower case, and - to _.
var folded = func() (t [256]byte) {
	for c := range t {
		t[c] = byte(c)
		if 'A' <= c && c <= 'Z' {
			t[c] = byte(c) | 0x20
		}
	}
	t['-'] = '_'
	return t
}()

const (
	errObject    = problem("an object of JSON should stand here")
	errJSON      = problem("the object is not JSON")
	errCut       = problem("the object does not end; is the line cut off?")
	errTrailing  = problem("text stands behind the object")
	errNoRequest = problem("the object has no request; is it a message of the server?")
	errNoTime    = problem("the object has no time; map the name of its member with time=NAME")
)

// indexJSON returns the members of the object that a line is.
func indexJSON(line []byte, members []member) ([]member, error) {
	i := skipSpace(line, 0)
	if i == len(line) || line[i] != '{' {
		return members, errObject
	}
	end, err := walkObject(line, i, func(m member) bool {
		members = append(members, m)
		return true
	})
	if err == nil && skipSpace(line, end) != len(line) {
		err = errTrailing
	}
	return members, err
}

// walkObject calls visit for each member of the object at i until it returns false. It
// returns the place behind the object.
func walkObject(b []byte, i int, visit func(member) bool) (int, error) {
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1, nil
	}
	for {
		var m member
		var err error
		if i >= len(b) {
			return i, errCut
		}
		if b[i] != '"' {
			return i, errJSON
		}
		if m.name, i, err = valueAt(b, i); err != nil {
			return i, err
		}
		if i = skipSpace(b, i); i >= len(b) {
			return i, errCut
		}
		if b[i] != ':' {
			return i, errJSON
		}
		if m.value, i, err = valueAt(b, skipSpace(b, i+1)); err != nil {
			return i, err
		}
		if !visit(m) {
			return i, nil
		}
		if i = skipSpace(b, i); i >= len(b) {
			return i, errCut
		}
		switch b[i] {
		case '}':
			return i + 1, nil
		case ',':
			i = skipSpace(b, i+1)
		default:
			return i, errJSON
		}
	}
}

// valueAt returns the value at i and the place behind it.
func valueAt(b []byte, i int) (s span, next int, err error) {
	if i >= len(b) {
		return s, i, errCut
	}
	switch b[i] {
	case '"':
		end, k := quoteEnd(b, i+1)
		if end < 0 {
			return s, len(b), errCut
		}
		return span{uint32(i + 1), uint32(end), k}, end + 1, nil
	case '{':
		next, err = skipNested(b, i)
		return span{uint32(i), uint32(next), kindObject}, next, err
	case '[':
		next, err = skipNested(b, i)
		return span{uint32(i), uint32(next), kindArray}, next, err
	}
	for next = i; next < len(b); next++ {
		if c := b[next]; c == ',' || c == '}' || c == ']' || c <= ' ' {
			break
		}
	}
	switch c := b[i]; {
	case next == len(b):
		return s, next, errCut
	case c == 'n':
		return span{uint32(i), uint32(next), kindNull}, next, nil
	case '0' <= c && c <= '9' || c == '-' || c == 't' || c == 'f':
		return span{uint32(i), uint32(next), kindWord}, next, nil
	}
	return s, next, errJSON
}

// skipNested returns the place behind the object or array at i.
func skipNested(b []byte, i int) (int, error) {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			end, _ := quoteEnd(b, i+1)
			if end < 0 {
				return len(b), errCut
			}
			i = end
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, nil
			}
		}
		i++
	}
	return i, errCut
}

// firstElement returns the first element of an array: the first value of a field that a
// header has several times.
func firstElement(b []byte, array span) span {
	s, _, err := valueAt(b[:array.to], skipSpace(b, int(array.from)+1))
	if err != nil || s.kind == kindArray {
		return span{kind: kindNull}
	}
	return s
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}

// parse reads the members of a line and its instant.
func (obj *object) parse(e *Entry) (err error) {
	e.object = obj
	if e.members, err = indexJSON(e.line, e.members); err != nil {
		return err
	}
	if obj.needs != "" {
		if _, ok := findMember(e.line, e.members, obj.needs); !ok {
			return errNoRequest
		}
	}
	b := e.first(obj.time)
	if len(b) == 0 {
		return errNoTime
	}
	if obj.isTrace {
		e.At, err = traceInstant(b)
		return err
	}
	e.At, err = parseInstant(bytes.TrimSpace(b))
	return err
}

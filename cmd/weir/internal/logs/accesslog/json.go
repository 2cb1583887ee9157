package accesslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// member is a member of an object, or an element of an array that is one.
type member struct {
	name, value span
	parent      int32 // the index of the member whose value is the object; -1 = none
}

// maxMembers bounds the memory of a line: members behind as many are checked and not kept.
const maxMembers = 1024

// object is the members of a format in JSON.
type object struct {
	from    [facts][]place // candidates, the best first
	time    []place
	headers []string // prefixes of the fields of the request's header, such as http_
	isTrace bool     // the time is in microseconds, and a line without units has one
	needs   string   // an object of every entry; "" = none
}

// place is the dotted path of a member.
type place struct {
	path string
	how  how
}

// places returns the places of paths with spaces between them.
func places(h how, paths string) (all []place) {
	for _, path := range strings.Fields(paths) {
		all = append(all, place{path, h})
	}
	return all
}

func newObject(o Options, time string, from map[fact][]place, headers ...string) *object {
	obj := &object{time: places(plain, time), headers: headers}
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
			obj.from[f] = []place{{name, h}}
		}
	}
	if name := o.Fields["time"]; name != "" {
		obj.time = []place{{name, plain}}
	}
	return obj
}

func nginxObject(o Options) *object {
	return newObject(o, "msec time_iso8601 time timestamp @timestamp ts time_local date datetime start_time", map[fact][]place{
		remoteAddr: places(address, "remote_addr client_ip remote_ip client_addr remote_address client ip remote clientip"),
		method:     slices.Concat(places(plain, "request_method method verb"), places(requestMethod, "request")),
		path:       slices.Concat(places(pathOf, "request_uri uri path url"), places(requestPath, "request")),
		query:      slices.Concat(places(plain, "args query_string query"), places(queryOf, "request_uri uri path url"), places(requestQuery, "request")),
		host:       slices.Concat(places(plain, "http_host host server_name vhost domain"), places(requestHost, "request")),
		status:     places(plain, "status status_code code response_code"),
		size:       places(plain, "body_bytes_sent bytes_sent bytes size response_size"),
		user:       places(plain, "remote_user user user_id username"),
		userAgent:  places(plain, "http_user_agent user_agent agent useragent"),
		referer:    places(plain, "http_referer http_referrer referer referrer"),
	}, "http_", "")
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
	}, "request.headers.")
	obj.needs = "request"
	return obj
}

func traefikObject(o Options) *object {
	return newObject(o, "StartUTC StartLocal time", map[fact][]place{
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
	}, "request_", "")
}

func envoyObject(o Options) *object {
	return newObject(o, "start_time timestamp time", map[fact][]place{
		remoteAddr: slices.Concat(places(address, "downstream_remote_address downstream_remote_address_without_port downstream_direct_remote_address"), places(lastAddress, "x_forwarded_for")),
		method:     places(plain, "method request_method :method"),
		path:       places(pathOf, "path x_envoy_original_path x_envoy_origin_path :path"),
		query:      places(queryOf, "path x_envoy_original_path x_envoy_origin_path :path"),
		host:       places(plain, "authority :authority host"),
		status:     places(plain, "response_code status"),
		size:       places(plain, "bytes_sent"),
		user:       places(plain, "user"),
		userAgent:  places(plain, "user_agent"),
		referer:    places(plain, "referer"),
	}, "")
}

// get returns the value of a field, or nil.
func (obj *object) get(e *Entry, f Field) []byte {
	switch f.fact {
	case none:
		return nil
	case own:
		return e.at(place{path: f.name})
	case header:
		return obj.header(e, f.name)
	}
	b := e.firstOf(obj.from[f.fact])
	if b == nil && obj.isTrace && f.fact == size {
		return []byte("1")
	}
	return b
}

// header returns a field of the request's header. The elements of X-Forwarded-For are joined
// by commas, as HTTP joins several lines of one field.
func (obj *object) header(e *Entry, name string) (value []byte) {
	for _, prefix := range obj.headers {
		i := e.find(prefix + name)
		if i < 0 {
			continue
		}
		value = e.value(e.members[i].value)
		for j := i + 1; name == forwardedFor && j < len(e.members) && e.members[j].name == e.members[i].name; j++ {
			value = slices.Concat(value, []byte(","), e.value(e.members[j].value))
		}
		return value
	}
	return nil
}

// firstOf returns the value of the first place that has one.
func (e *Entry) firstOf(all []place) []byte {
	for _, p := range all {
		if b := e.at(p); len(b) > 0 {
			return b
		}
	}
	return nil
}

// at returns the value of a place, or nil.
func (e *Entry) at(p place) []byte {
	if i := e.find(p.path); i >= 0 {
		return e.derive(e.value(e.members[i].value), p.how)
	}
	return nil
}

// find returns the index of the first member with a path, or -1.
func (e *Entry) find(path string) int {
	return slices.IndexFunc(e.members, func(m member) bool { return e.hasPath(m, path) })
}

// hasPath reports whether a member has a path. Letter case, - and _ are equal.
func (e *Entry) hasPath(m member, path string) bool {
	for {
		name := e.line[m.name.from:m.name.to]
		rest := len(path) - len(name)
		if rest < 0 || !sameName(name, path[rest:]) {
			return false
		}
		if m.parent < 0 || rest == 0 {
			return rest == 0 && m.parent < 0
		}
		if path[rest-1] != '.' {
			return false
		}
		m, path = e.members[m.parent], path[:rest-1]
	}
}

// sameName reports whether two names of equal length are equal but for letter case, - and _.
func sameName(a []byte, b string) bool {
	for i, c := range a {
		if c != b[i] && folded[c] != folded[b[i]] {
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
	errCut       = problem("the object does not end; is the line cut off?")
	errTrailing  = problem("text stands behind the object")
	errNoRequest = problem("the object has no request; is it a message of the server?")
	errNoTime    = problem("the object has no time; map the name of its member with time=NAME")
)

// jsonReader reads lines of JSON.
type jsonReader struct {
	dec  jsontext.Decoder
	text bytes.Buffer
	e    *Entry
}

// read reads the members of the object that the line of e is.
func (r *jsonReader) read(e *Entry) error {
	if bytes.Contains(e.line, []byte(`\x`)) {
		e.line = escape.ReplaceAllFunc(e.line, escapeOfJSON)
	}
	err := r.line(e)
	if err == nil || err == errObject {
		return err
	}
	e.line, e.members = lone.ReplaceAllFunc(e.line, func(b []byte) []byte {
		if b[0] != '-' {
			return b
		}
		return slices.Concat([]byte("null"), b[1:])
	}), e.members[:0]
	if r.line(e) == nil {
		return nil
	}
	return err
}

// lone is a string, or a - that nginx writes for a variable without a value. A string that
// is cut off goes to the end: otherwise each - in it would cost a search for its quote.
var lone = regexp.MustCompile(`(?s)"(?:[^"\\]|\\.)*(?:"|\\?\z)|-\s*[,}\]]`)

// line reads an object of JSON.
func (r *jsonReader) line(e *Entry) error {
	r.e, r.text = e, *bytes.NewBuffer(e.line)
	r.dec.Reset(&r.text, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if r.dec.PeekKind() != '{' {
		return errObject
	}
	if err := r.object(-1); err != nil {
		bad := new(jsontext.SyntacticError)
		if !errors.As(err, &bad) || bad.Err == io.ErrUnexpectedEOF {
			return errCut
		}
		return problem(fmt.Sprintf("the object is not JSON at byte %d: %v; quote the values in the format of the log", bad.ByteOffset+1, bad.Err))
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return errTrailing
	}
	return nil
}

// escape is an escape of JSON, or \xHH of nginx and Apache.
var escape = regexp.MustCompile(`(?s)\\(x[0-9A-Fa-f]{2}|.)`)

// escapeOfJSON returns an escape as JSON has it. A byte of a character stands for itself.
func escapeOfJSON(b []byte) []byte {
	if len(b) != len(`\xHH`) || b[1] != 'x' {
		return b
	}
	c, _ := strconv.ParseUint(string(b[2:]), 16, 8)
	if c < 0x80 {
		return fmt.Appendf(nil, `\u%04x`, c)
	}
	return []byte{byte(c)}
}

// object reads an object, the value of the member parent.
func (r *jsonReader) object(parent int) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != '}' {
		name, err := r.value()
		if err != nil {
			return err
		}
		m := member{name: name, parent: int32(parent)}
		if r.dec.PeekKind() == '[' {
			err = r.array(m)
		} else {
			err = r.member(m)
		}
		if err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// array reads an array. Each element is a member with the same name.
func (r *jsonReader) array(m member) error {
	if _, err := r.dec.ReadToken(); err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		if err := r.member(m); err != nil {
			return err
		}
	}
	_, err := r.dec.ReadToken()
	return err
}

// member reads the value of a member. That of an object is the index of its first member.
func (r *jsonReader) member(m member) (err error) {
	at, isKept := len(r.e.members), len(r.e.members) < maxMembers
	if isKept {
		r.e.members = append(r.e.members, m)
	}
	if r.dec.PeekKind() == '{' && isKept {
		r.e.members[at].value.kind = kindObject
		return r.object(at)
	}
	value, err := r.value()
	if isKept {
		r.e.members[at].value = value
	}
	return err
}

// value reads a name or a value. An object or array is skipped.
func (r *jsonReader) value() (s span, err error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return s, err
	}
	end := uint32(r.dec.InputOffset())
	s = span{end - uint32(len(v)), end, kindWord}
	switch v.Kind() {
	case '"':
		s.from, s.to, s.kind = s.from+1, s.to-1, kindQuoted
		if bytes.IndexByte(v, '\\') >= 0 {
			s.kind = kindJSON
		}
	case '{', '[', 'n':
		s.kind = kindNull
	}
	return s, nil
}

// parse reads the members of a line and its instant.
func (obj *object) parse(e *Entry, r *jsonReader) error {
	e.object = obj
	if err := r.read(e); err != nil {
		return err
	}
	if obj.needs != "" {
		if i := e.find(obj.needs); i < 0 || e.members[i].value.kind != kindObject {
			return errNoRequest
		}
	}
	b := e.firstOf(obj.time)
	if len(b) == 0 {
		return errNoTime
	}
	var err error
	if obj.isTrace {
		e.At, err = traceInstant(b)
	} else {
		e.At, err = parseInstant(bytes.TrimSpace(b))
	}
	return err
}

package store

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/redact"
)

// ErrURL: the store's name or URL is not in a form that Open reads.
var ErrURL = errors.New("store: bad name")

// kind is a way to reach Redis.
type kind uint8

const (
	single kind = iota
	sentinel
	cluster
)

// schemes holds the kinds of stores besides memory.
var schemes = map[string]struct {
	kind kind
	tls  bool
}{
	"redis":           {single, false},
	"rediss":          {single, true},
	"redis+sentinel":  {sentinel, false},
	"rediss+sentinel": {sentinel, true},
	"redis+cluster":   {cluster, false},
	"rediss+cluster":  {cluster, true},
}

// schemeList is the schemes in errors.
const schemeList = "file:/DIR, redis+cluster://…, redis+sentinel://…, redis://…, rediss+cluster://…, rediss+sentinel://…, rediss://…"

// target is a parsed URL.
type target struct {
	scheme             string
	kind               kind
	tls                bool
	addresses          []string // host:port
	username, password string
	db                 int
	master             string // of Sentinels
	ca                 string // file
	prefix             string // of all keys
}

// parse parses a URL. Errors repeat no part that may hold a password, not even of a URL
// without a host or with unescaped characters.
func parse(text string) (*target, error) {
	t := new(target)
	if err := t.read(text); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return t, nil
}

func (t *target) read(text string) error {
	scheme, rest, isURL := strings.Cut(text, "://")
	s, known := schemes[scheme]
	switch {
	case !isURL && filepath.IsAbs(text):
		return fmt.Errorf("%q is a path; write file:%s to keep histories in that directory", text, text)
	case !isURL:
		return fmt.Errorf("%q is neither memory nor a URL; write memory, or one of %s", redact.URL(text), schemeList)
	case !known:
		return fmt.Errorf("there is no store of the kind %q; write memory, or one of %s", redact.URL(scheme)+"://", schemeList)
	}
	t.scheme, t.kind, t.tls = scheme, s.kind, s.tls
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") { // the text before it may be half of a password
		return errors.New("an @ follows a ?; in user and password write %3F for a ?, in a parameter %40 for an @")
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		if err := t.credentials(rest[:i]); err != nil {
			return err
		}
		rest = rest[i+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if err := t.hosts(hosts); err != nil {
		return err
	}
	if err := t.path(path); err != nil {
		return err
	}
	return t.query(query)
}

// credentials reads user[:password], both percent-encoded.
func (t *target) credentials(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	t.username, err1 = url.PathUnescape(user)
	t.password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("user or password of %s:// holds a %% that is not followed by two hex digits; write %%25 for a %%", t.scheme)
	}
	return nil
}

// hosts reads host[:port], or a list of them for Sentinels and a Cluster.
func (t *target) hosts(text string) error {
	port := "6379"
	if t.kind == sentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(text, ",") {
		address, err := withPort(host, port)
		if err != nil {
			return fmt.Errorf("%s://: %w; write host or host:port", t.scheme, err)
		}
		t.addresses = append(t.addresses, address)
	}
	if t.kind == single && len(t.addresses) > 1 {
		return fmt.Errorf("%s:// is one server, not %d; write redis+sentinel:// or redis+cluster://", t.scheme, len(t.addresses))
	}
	return nil
}

// withPort returns host:port, with the default port if text has none.
func withPort(text, port string) (string, error) {
	host, given, err := net.SplitHostPort(text)
	if err != nil { // no port, or malformed
		host, given = strings.Trim(text, "[]"), port
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("%q is not host:port", redact.URL(text))
		}
	}
	if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
		return "", errors.New("the text after the colon is not a port from 1 to 65535; write user and password before an @")
	}
	if host == "" {
		return "", errors.New("the host is missing")
	}
	return net.JoinHostPort(host, given), nil
}

// path reads the part after the hosts: a database, or the master's name.
func (t *target) path(text string) error {
	switch {
	case t.kind == sentinel && text == "":
		return fmt.Errorf("%s:// needs the master's name: %s://host/mymaster", t.scheme, t.scheme)
	case t.kind == sentinel:
		t.master = text
	case text != "" && t.kind == cluster:
		return errors.New("a Cluster has no database but 0; leave out the / and the text after it")
	case text != "":
		return t.database(text)
	}
	return nil
}

// database reads the number of a database.
func (t *target) database(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return errors.New("the text after the last / is not a database; use a number, mostly 0")
	}
	t.db = int(n)
	return nil
}

// query reads the parameters after a question mark.
func (t *target) query(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("the text after the ? is not name=value&…")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all := values[name]
		switch {
		case len(all) > 1:
			return errors.New("a parameter is given twice; give each once")
		case name == "ca" && t.tls:
			t.ca = all[0]
		case name == "prefix":
			if t.prefix = all[0]; strings.ContainsAny(t.prefix, "{}") || len(t.prefix) > 64 {
				return errors.New("prefix= is longer than 64 bytes or has a brace, which marks the slot of a key in a Cluster; use a short text, as in ?prefix=staging")
			}
		case name == "ca":
			return fmt.Errorf("ca= is for TLS; write %s", strings.Replace(t.scheme, "redis", "rediss", 1))
		case name == "db" && t.kind == sentinel:
			if err := t.database(all[0]); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s:// has no parameter of that name; there are prefix=, ca= (with TLS) and db= (with Sentinels)", t.scheme)
		}
	}
	return nil
}

// String returns the URL without the password.
func (t *target) String() string {
	var b strings.Builder
	b.WriteString(t.scheme + "://")
	if t.username != "" {
		b.WriteString(url.PathEscape(t.username) + "@")
	}
	b.WriteString(strings.Join(t.addresses, ","))
	if t.master != "" {
		b.WriteString("/" + t.master)
	}
	if t.db != 0 {
		fmt.Fprintf(&b, "/%d", t.db)
	}
	if t.prefix != "" {
		b.WriteString("?prefix=" + url.QueryEscape(t.prefix))
	}
	return b.String()
}

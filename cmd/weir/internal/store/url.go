package store

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/internal/nearest"
	"github.com/weirlimit/weir/weirdisk"
)

// ErrURL: the store's name or URL is not in a form that Open reads.
var ErrURL = errors.New("store: bad name")

// location is a parsed name.
type location interface {
	String() string // the name, without a password
	open(o Options, onChange func(err error, warnings []string)) (*Store, error)
}

// parse reads a name. Errors repeat no part that may hold a password, not even of a URL
// without a host or with unescaped characters.
func parse(name string) (l location, err error) {
	if name == "memory" {
		return memory{}, nil
	}
	if text, ok := strings.CutPrefix(name, fileScheme); ok {
		l, err = parseFile(text)
	} else {
		l, err = parseURL(name)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrURL, err)
	}
	return l, nil
}

// memory is the memory of the process.
type memory struct{}

func (memory) String() string { return "memory" }

func (memory) open(o Options, _ func(error, []string)) (*Store, error) {
	m := weir.NewMemory(weir.MaxBytes(o.MaxBytes))
	return &Store{Engine: m, Memory: m, Name: "memory", close: func() error { return nil }}, nil
}

// readParameters reads the text after a question mark, and passes each parameter to set in
// alphabetical order.
func readParameters(text string, set func(name, value string) error) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errors.New("the text after the ? is not name=value&…")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) > 1 {
			return errors.New("a parameter is given twice; give each once")
		}
		if err := set(name, values[name][0]); err != nil {
			return err
		}
	}
	return nil
}

// fileScheme begins the name of a directory.
const fileScheme = "file:"

// directory is a parsed name of the form file:DIR[?sync=MODE&access=any].
type directory struct {
	path      string
	mode      string // the mode of syncing, as it is written
	sync      weirdisk.Option
	anyAccess bool
}

// The largest interval of syncing that a name accepts. A power failure may lose as much.
const maxSync = time.Minute

// parseFile parses the part of a name after file:.
func parseFile(text string) (*directory, error) {
	path, query, _ := strings.Cut(text, "?")
	if rest, slashes := strings.CutPrefix(path, "//"); slashes {
		if !strings.HasPrefix(rest, "/") {
			return nil, fmt.Errorf("file://%s names another machine; "+
				"write file:/%[1]s for a directory of this one", rest)
		}
		path = rest
	}
	path, err := url.PathUnescape(path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("file:%s holds a %% that is not followed by two hex digits; "+
			"write %%25 for a %%", text)
	case path == "":
		return nil, errors.New("file: needs a directory; write file:/var/lib/weir")
	case strings.HasPrefix(path, "~/") || path == "~":
		return nil, fmt.Errorf("file:%s: a shell does not replace ~ here; write file:$HOME%s",
			path, path[1:])
	}
	d := &directory{
		path: filepath.Clean(path),
		mode: "100ms",
		sync: weirdisk.SyncEvery(100 * time.Millisecond),
	}
	if err := readParameters(query, d.setParameter); err != nil {
		return nil, fmt.Errorf("file:%s: %w", d.path, err)
	}
	return d, nil
}

// setParameter sets a parameter.
func (d *directory) setParameter(name, value string) error {
	switch {
	case name == "sync":
		return d.setSync(value)
	case name != "access":
		return fmt.Errorf("there is no parameter %q%s; sync= and access= are the only ones",
			name, didYouMean(name, "sync", "access"))
	case value != "any":
		return fmt.Errorf("access=%s is not access=any, "+
			"which accepts a directory that others can change", value)
	}
	d.anyAccess = true
	return nil
}

// setSync reads the mode of syncing.
func (d *directory) setSync(word string) error {
	d.mode = word
	interval, err := time.ParseDuration(word)
	switch {
	case word == "always":
		d.sync = weirdisk.SyncAlways()
	case err != nil:
		return fmt.Errorf("sync=%s is not a mode%s; write sync=always, or a time such as sync=100ms",
			word, didYouMean(word, "always"))
	case interval < time.Millisecond || interval > maxSync:
		return fmt.Errorf("sync=%s is not within 1ms and %v; "+
			"write sync=always, or a time such as sync=100ms", word, maxSync)
	default:
		d.sync = weirdisk.SyncEvery(interval)
	}
	return nil
}

// didYouMean returns a question for the nearest of some words, or "".
func didYouMean(word string, words ...string) string {
	if near := nearest.Name(word, words); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// String returns the name with the mode.
func (d *directory) String() string {
	name := fileScheme + d.path + "?sync=" + d.mode
	if d.anyAccess {
		name += "&access=any"
	}
	return name
}

// open opens the engine.
func (d *directory) open(o Options, _ func(error, []string)) (*Store, error) {
	options := []weirdisk.Option{d.sync, weirdisk.MaxBytes(o.MaxBytes), weirdisk.Progress(o.Progress)}
	if d.anyAccess {
		options = append(options, weirdisk.AnyAccess())
	}
	engine, err := weirdisk.Open(d.path, options...)
	if err != nil {
		problem := strings.TrimPrefix(err.Error(), "weirdisk: ")
		return nil, fmt.Errorf("%w: %s: %s", ErrRefused, d, problem)
	}
	s := &Store{Engine: engine, Disk: engine, Name: d.String(), close: engine.Close}
	if cut := engine.Recovery(); cut.Bytes > 0 {
		s.Warnings = []string{cut.String()}
	}
	return s, nil
}

// schemes are those of the URLs.
var schemes = []string{
	"redis+cluster", "redis+sentinel", "redis", "rediss+cluster", "rediss+sentinel", "rediss",
}

// schemeList is the schemes in errors.
var schemeList = "file:/DIR, " + strings.Join(schemes, "://…, ") + "://…"

// The ways to reach Redis, behind the plus of a scheme.
const (
	single   = ""
	sentinel = "sentinel"
	cluster  = "cluster"
)

// target is a parsed URL.
type target struct {
	scheme             string
	kind               string
	tls                bool
	addresses          []string // host:port
	username, password string
	db                 int
	master             string // the master's name, with Sentinels
	ca                 string // file
	prefix             string // begins all keys
}

// parseURL parses the URL of a server.
func parseURL(text string) (*target, error) {
	scheme, rest, isURL := strings.Cut(text, "://")
	switch {
	case !isURL && filepath.IsAbs(text):
		return nil, fmt.Errorf("%q is a path; write file:%s to keep histories in that directory",
			text, text)
	case !isURL && nextName(text) != "":
		return nil, fmt.Errorf("%q is neither memory nor a URL; write %s",
			redact.URL(text), nextName(text))
	case !isURL:
		return nil, fmt.Errorf("%q is neither memory nor a URL; write memory, or one of %s",
			redact.URL(text), schemeList)
	case !slices.Contains(schemes, scheme):
		return nil, fmt.Errorf("there is no store of the kind %q; write memory, or one of %s",
			redact.URL(scheme)+"://", schemeList)
	}
	plain, kind, _ := strings.Cut(scheme, "+")
	t := &target{scheme: scheme, kind: kind, tls: plain == "rediss"}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") { // the text before it may be half of a password
		return nil, errors.New("an @ follows a ?; " +
			"in user and password write %3F for a ?, in a parameter %40 for an @")
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		if err := t.readCredentials(rest[:i]); err != nil {
			return nil, err
		}
		rest = rest[i+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	return t, cmp.Or(t.readHosts(hosts), t.readPath(path), readParameters(query, t.setParameter))
}

// nextName returns the name of the store that a text without a scheme means, or "". A text with an
// @ may hold a password, which no error repeats.
func nextName(text string) string {
	word := strings.ToLower(strings.TrimRight(text, ":/"))
	server := strings.TrimPrefix(word, "redis:")
	host, port, err := net.SplitHostPort(server)
	_, notPort := strconv.ParseUint(port, 10, 16)
	switch {
	case strings.Contains(text, "@"):
		return ""
	case word == "memory":
		return "memory"
	case strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../"):
		return fileScheme + text
	case word == "redis":
		return "redis://127.0.0.1:6379"
	case err == nil && host != "" && notPort == nil:
		return "redis://" + server
	case server == "localhost" || net.ParseIP(server) != nil && !strings.Contains(server, ":"):
		return "redis://" + server + ":6379"
	}
	return ""
}

// readCredentials reads user[:password], both percent-encoded.
func (t *target) readCredentials(text string) error {
	user, password, _ := strings.Cut(text, ":")
	var err1, err2 error
	t.username, err1 = url.PathUnescape(user)
	t.password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("user or password of %s:// holds a %% that is not followed by two hex digits; "+
			"write %%25 for a %%", t.scheme)
	}
	return nil
}

// readHosts reads host[:port], or a list of them for Sentinels and a Cluster.
func (t *target) readHosts(text string) error {
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
		return fmt.Errorf("%s:// is one server, not %d; write redis+sentinel:// or redis+cluster://",
			t.scheme, len(t.addresses))
	}
	return nil
}

// withPort returns host:port, with the default port if text has none.
func withPort(text, port string) (string, error) {
	host, given, err := net.SplitHostPort(text)
	if err != nil { // no port, or malformed
		host = strings.Trim(text, "[]")
		given = port
		if strings.Contains(host, ":") && net.ParseIP(host) == nil {
			return "", fmt.Errorf("%q is not host:port", redact.URL(text))
		}
	}
	if n, err := strconv.ParseUint(given, 10, 16); err != nil || n == 0 {
		return "", errors.New("the text after the colon is not a port from 1 to 65535; " +
			"write user and password before an @")
	}
	if host == "" {
		return "", errors.New("the host is missing")
	}
	return net.JoinHostPort(host, given), nil
}

// readPath reads the part after the hosts: a database, or the master's name.
func (t *target) readPath(text string) error {
	switch {
	case t.kind == sentinel && text == "":
		return fmt.Errorf("%s:// needs the master's name: %s://host/mymaster", t.scheme, t.scheme)
	case t.kind == sentinel:
		t.master = text
	case text != "" && t.kind == cluster:
		return errors.New("a Cluster has no database but 0; leave out the / and the text after it")
	case text != "":
		return t.readDatabase(text)
	}
	return nil
}

// readDatabase reads the number of a database.
func (t *target) readDatabase(text string) error {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return errors.New("the text after the last / is not a database; use a number, mostly 0")
	}
	t.db = int(n)
	return nil
}

// setParameter sets a parameter.
func (t *target) setParameter(name, value string) error {
	switch {
	case name == "ca" && t.tls:
		t.ca = value
	case name == "ca":
		return fmt.Errorf("ca= is for TLS; write %s", t.otherScheme())
	case name == "prefix":
		if strings.ContainsAny(value, "{}") || len(value) > 64 {
			return errors.New("prefix= is longer than 64 bytes or has a brace, " +
				"which marks the slot of a key in a Cluster; use a short text, as in ?prefix=staging")
		}
		t.prefix = value
	case name == "db" && t.kind == sentinel:
		return t.readDatabase(value)
	default:
		return fmt.Errorf("%s:// has no parameter of that name; "+
			"there are prefix=, ca= (with TLS) and db= (with Sentinels)", t.scheme)
	}
	return nil
}

// String returns the URL without the password.
func (t *target) String() string {
	u := url.URL{Scheme: t.scheme, Host: strings.Join(t.addresses, ","), Path: t.master}
	if t.username != "" {
		u.User = url.User(t.username)
	}
	if t.db != 0 {
		u.Path += "/" + strconv.Itoa(t.db)
	}
	if t.prefix != "" {
		u.RawQuery = "prefix=" + url.QueryEscape(t.prefix)
	}
	return u.String()
}

// Package integrations has snippets: complete configurations of nginx, HAProxy, Caddy,
// Traefik and Envoy that call weir before they forward a request. `weir snippet`
// prints them.
//
// A snippet is a template. The files beside it are the template with the defaults, for
// readers: one version allows while weir is down, the other denies. A test compares them with
// the templates. Other tests start the real nginx, HAProxy, Caddy and Envoy with a real weir,
// and stop, hang or restart weir. They do the same with the applications of examples/ for
// Express and Flask.
package integrations

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed nginx haproxy caddy traefik envoy
var files embed.FS

// Options are the addresses and names in a snippet. Zero values mean the defaults.
type Options struct {
	Policy    string // name; default search
	OfPolicy  bool   // the policy is in a file of weir, so Envoy's snippet needs no rules
	Dimension string // the policy's dimension for the key; default ip
	Header    string // the field of the request with the key; default: the client's address is the key

	// PlanHeader is the field of the request with the value of PlanBy, the policy's plan-by.
	// Default: none is sent.
	PlanHeader string
	PlanBy     string

	// Weir is the listener of weir, host:port or unix:/path. Default: 127.0.0.1:7070, for Envoy
	// 127.0.0.1:7071.
	Weir    string
	App     string // host:port of the application behind the proxy; default 127.0.0.1:8080
	Listen  string // host:port where the proxy listens; default 0.0.0.0:80
	Timeout string // for requests to weir, in ms or s, 10ms to 10s; default 100ms
	Allow   bool   // while weir is down or hangs, let requests pass; default: reject them
	Secret  bool   // send weir the secret of --gate-secret-file

	// Dir is the directory of the files, for references between them. Default: that of the
	// proxy's package.
	Dir string
}

// File is one file of a snippet.
type File struct{ Name, Text string }

// snippet lists the files of one proxy.
type snippet struct {
	name string

	// files are below the proxy's directory: templates, "SOURCE > NAME", and files that are
	// copied.
	files []string
	weir  string // default of Options.Weir
	dir   string // default of Options.Dir

	// Reasons why an option is not supported, "" if it is.
	noAllow, noSecret, noSocket string
}

const (
	envoyRules = "ratelimit.tmpl > ratelimit.yaml" // for a limit that no policy of weir has

	overHTTP = "127.0.0.1:7070" // the default of weir serve --listen
	overGRPC = "127.0.0.1:7071" // an example of --grpc-listen
)

var snippets = []snippet{
	{
		name:  "nginx",
		files: []string{"nginx.tmpl > weir.conf"},
		weir:  overHTTP,
		dir:   "/etc/nginx",
	},
	{
		name:  "haproxy",
		files: []string{"haproxy.tmpl > haproxy.cfg", "weir.lua"},
		weir:  overHTTP,
		dir:   "/etc/haproxy",
	},
	{
		name:  "caddy",
		files: []string{"Caddyfile.tmpl > Caddyfile"},
		weir:  overHTTP,
		dir:   "/etc/caddy",
	},
	{
		name:  "traefik",
		files: []string{"traefik.tmpl > weir.yaml"},
		weir:  overHTTP,
		dir:   "/etc/traefik",
		noAllow: "Traefik's forwardAuth answers 500 when it gets no answer, and has no other " +
			"mode; leave --when-down at deny, or choose another proxy",
		noSocket: "Traefik's forwardAuth connects over TCP only; write host:port",
	},
	{
		name:  "envoy",
		files: []string{"envoy.tmpl > envoy.yaml", envoyRules},
		weir:  overGRPC,
		dir:   "/etc/envoy",
		noSecret: "Envoy calls weir over gRPC, and the secret is for gates only; " +
			"let weir listen on loopback or a unix socket, " +
			"or give Envoy's cluster a client certificate",
	},
}

// Names returns the proxies with a snippet.
func Names() (names []string) {
	for _, r := range snippets {
		names = append(names, r.name)
	}
	return names
}

// Render returns the files of the snippet for a proxy, the main file first.
func Render(name string, o Options) ([]File, error) {
	i := slices.IndexFunc(snippets, func(r snippet) bool { return r.name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no snippet for %q; there are %s",
			name, strings.Join(Names(), ", "))
	}
	r := snippets[i]
	o.Policy = cmp.Or(o.Policy, "search")
	o.Dimension = cmp.Or(o.Dimension, "ip")
	o.Weir = cmp.Or(o.Weir, r.weir)
	o.App = cmp.Or(o.App, "127.0.0.1:8080")
	o.Listen = cmp.Or(o.Listen, "0.0.0.0:80")
	o.Timeout = cmp.Or(o.Timeout, "100ms")
	o.Dir = cmp.Or(o.Dir, r.dir)
	if err := o.check(r); err != nil {
		return nil, err
	}
	var all []File
	for _, file := range r.files {
		if o.OfPolicy && file == envoyRules {
			continue
		}
		f, err := render(name, file, o)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	return all, nil
}

// functions are those of the templates.
var functions = template.FuncMap{
	"host": host,
	"port": port,
	"join": path.Join,
}

// render executes a template, or copies another file.
func render(dir, file string, o Options) (File, error) {
	file, made, isTemplate := strings.Cut(file, " > ")
	text, err := files.ReadFile(dir + "/" + file)
	if err != nil || !isTemplate {
		return File{file, string(text)}, err
	}
	t := template.New(file).Delims("[[", "]]").Funcs(functions)
	t, err = t.Parse(string(text))
	if err != nil {
		return File{}, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, o)
	return File{made, b.String()}, err
}

// The forms of values in a snippet. They exclude characters with a meaning in a
// proxy's language.
var (
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	headerForm  = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)
	pathForm    = regexp.MustCompile(`^/[A-Za-z0-9/._-]{1,200}$`)
	timeoutForm = regexp.MustCompile(`^[0-9]+m?s$`)
	addressForm = regexp.MustCompile(`^[A-Za-z0-9.:\[\]-]{1,200}$`)
	digits      = regexp.MustCompile(`^[0-9]+$`)
)

// ownHeaders are fields that proxies set or remove, so that the application would not
// get the counted value.
var ownHeaders = []string{
	"Connection", "Content-Length", "Expect", "Host", "Keep-Alive", "Proxy-Connection", "TE",
	"Trailer", "Transfer-Encoding", "Upgrade", "Weir-Gate-Secret", "X-Forwarded-For",
}

// check rejects options that would not be one word in the configuration of a proxy,
// and those that the proxy does not support.
func (o *Options) check(r snippet) error {
	switch {
	case o.Allow && r.noAllow != "":
		return errors.New(r.noAllow)
	case o.Secret && r.noSecret != "":
		return errors.New(r.noSecret)
	case o.Socket() != "" && r.noSocket != "":
		return errors.New(r.noSocket)
	}
	if err := o.checkNames(); err != nil {
		return err
	}
	for _, field := range []string{o.Header, o.PlanHeader} {
		if err := checkField(field); err != nil {
			return err
		}
	}
	d, err := time.ParseDuration(o.Timeout)
	isSpelled := err == nil && timeoutForm.MatchString(o.Timeout)
	if !isSpelled || d < 10*time.Millisecond || d > 10*time.Second {
		return fmt.Errorf("%q is not a timeout; write 10ms to 10s, in whole ms or s", o.Timeout)
	}
	return o.checkAddresses()
}

// checkNames rejects texts that are no names.
func (o *Options) checkNames() error {
	const next = "use letters, digits, dots, underscores and dashes"
	switch {
	case !nameForm.MatchString(o.Policy):
		return fmt.Errorf("%q is not a name of a policy", o.Policy)
	case !nameForm.MatchString(o.Dimension):
		return fmt.Errorf("%q is not a name of a dimension; %s", o.Dimension, next)
	case o.PlanHeader != "" && !nameForm.MatchString(o.PlanBy):
		return fmt.Errorf("%q is not a name for --plan-header; %s in plan-by", o.PlanBy, next)
	case o.PlanHeader != "" && strings.EqualFold(o.Header, o.PlanHeader):
		return fmt.Errorf("the header field %s cannot be both the key and the plan; "+
			"choose two fields", o.Header)
	case !pathForm.MatchString(o.Dir):
		return fmt.Errorf("%q is not a directory; write a path from the root, "+
			"of letters, digits, dots, underscores and dashes", o.Dir)
	}
	return nil
}

// checkAddresses rejects texts that are no addresses.
func (o *Options) checkAddresses() error {
	if socket, unix := strings.CutPrefix(o.Weir, "unix:"); !unix {
		if err := checkAddress("--weir", o.Weir, "127.0.0.1"); err != nil {
			return err
		}
	} else if !pathForm.MatchString(socket) {
		return fmt.Errorf("%q is not a socket; write unix:/run/weir/weir.sock", o.Weir)
	}
	if err := checkAddress("--app", o.App, "127.0.0.1"); err != nil {
		return err
	}
	return checkAddress("--listen", o.Listen, "0.0.0.0")
}

// checkAddress rejects an address other than host:port. The error has the corrected value, if
// there is one. defaultHost is the host of an address that is a port alone.
func checkAddress(flag, address, defaultHost string) error {
	if isAddress(address) {
		return nil
	}
	scheme, rest, isURL := strings.Cut(address, "://")
	if !isURL {
		rest = address
	}
	better, _, _ := strings.Cut(rest, "/")
	isPort := digits.MatchString(strings.TrimPrefix(better, ":"))
	switch {
	case isPort && !isURL:
		better = defaultHost + ":" + strings.TrimPrefix(better, ":")
	case strings.EqualFold(scheme, "http") && !isAddress(better):
		better += ":80"
	}
	switch {
	case !isAddress(better):
		return fmt.Errorf("%s %q is not an address; write host:port", flag, address)
	case isURL:
		return fmt.Errorf("%s %q is not an address; write %s, without %s://",
			flag, address, better, scheme)
	default:
		return fmt.Errorf("%s %q is not an address; write %s", flag, address, better)
	}
}

// isAddress reports whether an address is host:port.
func isAddress(address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil || host == "" {
		return false
	}
	_, err = strconv.ParseUint(port, 10, 16)
	return err == nil && addressForm.MatchString(address)
}

// checkField rejects a name that is no header field, or that of a field which proxies set. ""
// is none.
func checkField(name string) error {
	if name != "" && !headerForm.MatchString(name) {
		return fmt.Errorf("%q is not a name of a header field; "+
			"use letters, digits and dashes", name)
	}
	isName := func(own string) bool { return strings.EqualFold(own, name) }
	if slices.ContainsFunc(ownHeaders, isName) {
		return fmt.Errorf("the header field %s cannot be the key or the plan: "+
			"the proxy sets or removes it; choose another field", name)
	}
	return nil
}

// The methods below format options for the templates in the syntax of each proxy.

// Socket returns the path of weir's unix socket, "" for TCP.
func (o Options) Socket() string {
	if p, ok := strings.CutPrefix(o.Weir, "unix:"); ok {
		return p
	}
	return ""
}

// NginxHeader returns the variable of the key's header field.
func (o Options) NginxHeader() string {
	return "$http_" + strings.ReplaceAll(strings.ToLower(o.Header), "-", "_")
}

// NginxPlan returns the variable of the plan's header field.
func (o Options) NginxPlan() string { return Options{Header: o.PlanHeader}.NginxHeader() }

// PlanQuery returns the part of a gate's query that names the field with the plan, "" if none is
// sent.
func (o Options) PlanQuery(field string) string {
	if o.PlanHeader == "" {
		return ""
	}
	return "&header." + o.PlanBy + "=" + field
}

// Dashed returns a field that the client must not forge: that of the key, or X-Forwarded-For.
func (o Options) Dashed() string { return cmp.Or(o.Header, "X-Forwarded-For") }

// Underscored returns the field of Dashed with underscores, which CGI and WSGI treat as the same
// field.
func (o Options) Underscored() string { return strings.ReplaceAll(o.Dashed(), "-", "_") }

// CaddyBind returns the host that a site of Caddy binds, "" for all. It is no part of the site's
// address, which would match only requests with this Host.
func (o Options) CaddyBind() string {
	if h := host(o.Listen); h != "0.0.0.0" && h != "::" {
		return h
	}
	return ""
}

// TraefikFields returns the list of the header fields that reach weir.
func (o Options) TraefikFields() string {
	fields := []string{cmp.Or(o.Header, "X-Forwarded-For")}
	if o.PlanHeader != "" {
		fields = append(fields, o.PlanHeader)
	}
	if o.Secret {
		fields = append(fields, "Weir-Gate-Secret")
	}
	return "[" + strings.Join(fields, ", ") + "]"
}

// Seconds returns the timeout in Envoy's form of durations.
func (o Options) Seconds() string {
	d, _ := time.ParseDuration(o.Timeout)
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func host(address string) string {
	h, _, _ := net.SplitHostPort(address)
	return h
}

func port(address string) string {
	_, p, _ := net.SplitHostPort(address)
	return p
}

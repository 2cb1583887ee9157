package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/internal/answer"
)

// defaultURL is the address of weir serve without --listen.
const defaultURL = "http://127.0.0.1:7070"

// requestTimeout bounds a request and its answer.
const requestTimeout = 10 * time.Second

// clientFlags are the flags of a verb that sends requests to a running weir.
type clientFlags struct {
	url, ca, tokenFile string
	variable           string // environment variable of the token; "" = no token is sent
}

// addTo adds the flags to a verb. address is the default of --url.
func (f *clientFlags) addTo(cmd *cobra.Command, address, help string) {
	cmd.Flags().StringVar(&f.url, "url", address, help)
	cmd.Flags().StringVar(&f.ca, "ca", "", "a PEM `FILE` with the authority of weir's certificate, "+
		"for https; default: those of the system")
	if f.variable != "" {
		cmd.Flags().StringVar(&f.tokenFile, "token-file", "",
			"a `FILE` with the token that weir requires; or set $"+f.variable)
	}
}

// apiClient sends requests to a running weir serve.
type apiClient struct {
	http     http.Client
	address  string // for messages
	base     string // the beginning of URLs, without a slash at the end
	token    string // "" = none is sent
	variable string // the environment variable of the token, for messages
	match    string // If-Match of a change; "" = none
}

// newClient returns a client for the weir serve at --url, a URL or unix:/path.
func (f *clientFlags) newClient(timeout time.Duration) (*apiClient, error) {
	c := &apiClient{address: f.url, base: f.url, variable: f.variable}
	c.http.Timeout = timeout
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a token must not follow a redirect
	}
	transport := &http.Transport{}
	if path, ok := strings.CutPrefix(f.url, "unix:"); ok {
		c.base = "http://weir"
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}
	}
	c.http.Transport = transport
	u, err := url.Parse(c.base)
	if err != nil || !isAddressOfWeir(u) {
		return nil, usage(urlHint(f.url),
			"--url is not an address of weir: %q", redact.URL(f.url))
	}
	c.base = strings.TrimSuffix(u.String(), "/")
	if f.ca != "" {
		if transport.TLSClientConfig, err = trustOnly(f.ca, u.Scheme); err != nil {
			return nil, err
		}
	}
	c.token, err = f.readToken()
	return c, err
}

// urlHint returns the next step for a wrong --url. It repeats the text only if that lacks just
// the scheme, because other texts may hold a password.
func urlHint(text string) string {
	u, err := url.Parse("http://" + text)
	switch {
	case filepath.IsAbs(text):
		return "write --url unix:" + text
	case err != nil || strings.Contains(text, "://") || !isAddressOfWeir(u) || u.Hostname() == "":
		return "write --url http://127.0.0.1:7070 or --url unix:/run/weir.sock"
	case u.Port() == "":
		u.Host += ":7070"
	}
	return "write --url " + u.String()
}

// isAddressOfWeir reports whether a URL has a scheme for HTTP and a host, and nothing that
// requests would leave out.
func isAddressOfWeir(u *url.URL) bool {
	hasPlace := (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	return hasPlace && u.User == nil && u.RawQuery == "" && u.Fragment == ""
}

// trustOnly returns the TLS configuration that trusts only the authorities of a PEM file.
func trustOnly(path, scheme string) (*tls.Config, error) {
	if scheme != "https" {
		return nil, usage("write --url https://…, or leave out --ca",
			"--ca is for https, and --url has no https")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadableFile("ca",
			"the PEM file of the authority that signed weir's certificate", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, usage("name the PEM file of the authority that signed weir's certificate",
			"--ca: %s holds no PEM certificate", path)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
}

// unreadableFile returns the failure of a flag whose file cannot be read. wanted describes the
// file to name.
func unreadableFile(flag, wanted string, err error) error {
	return usage("name "+wanted+", or leave out --"+flag, "--%s: %w", flag, err)
}

// readToken returns the first token of the file or, without a file, of the variable. During a
// rotation there are two tokens, and the server accepts both.
func (f *clientFlags) readToken() (token string, err error) {
	if f.variable == "" {
		return "", nil
	}
	text := strings.ReplaceAll(os.Getenv(f.variable), " ", "\n")
	if f.tokenFile != "" {
		b, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return "", unreadableFile("token-file", "the file with the token of weir serve", err)
		}
		text = string(b)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			return line, nil
		}
	}
	if f.tokenFile != "" {
		return "", usage("write the token in a line of it",
			"--token-file: %s has no token", f.tokenFile)
	}
	return "", nil
}

// apiAnswer is an answer of weir with any status.
type apiAnswer struct {
	status      int
	text        string // the status line, such as "404 Not Found"
	contentType string
	location    string
	body        []byte
}

// maxAnswer is the largest answer that is read, in bytes.
const maxAnswer = 64 << 20

// send sends a request. Unless body is nil, it is sent as JSON. If no answer arrives, the error
// is a failure with the exit code.
func (c *apiClient) send(
	ctx context.Context, method, path string, body any, code int,
) (*apiAnswer, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return nil, usage("", "--url: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.match != "" {
		r.Header.Set("If-Match", c.match)
	}
	res, err := c.http.Do(r)
	if err != nil {
		return nil, c.noAnswerFailure(redact.Error(err), code)
	}
	defer res.Body.Close()
	a := &apiAnswer{status: res.StatusCode, text: res.Status, location: res.Header.Get("Location")}
	a.contentType, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type"))
	if a.body, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer)); err != nil {
		return nil, c.noAnswerFailure(err, code)
	}
	return a, nil
}

// noAnswerFailure returns the failure of a request without an answer. The next step depends on
// the cause.
func (c *apiClient) noAnswerFailure(err error, code int) error {
	next := "does weir serve run there? start it, or name its address by --url"
	certificate := new(tls.CertificateVerificationError)
	// Some errors of net/http have no type.
	mentions := func(text string) bool { return strings.Contains(err.Error(), text) }
	switch {
	case errors.As(err, new(tls.RecordHeaderError)), mentions("HTTP response to HTTPS client"):
		next = "it does not speak TLS; write --url " + c.otherScheme()
	case errors.As(err, new(x509.UnknownAuthorityError)):
		next = "name the file of the authority that signed its certificate by --ca FILE"
	case errors.As(err, &certificate):
		next = "write the host that its certificate names, or renew the certificate"
	case errors.As(err, new(*net.DNSError)):
		next = "is the host's name right?"
	case mentions("malformed HTTP"), mentions("readLoopPeekFail"):
		next = "something else than HTTP listens there; is --url the address of --listen?"
	}
	return &failure{
		code: code,
		err:  fmt.Errorf("%s does not answer: %w", c.address, err),
		next: next,
	}
}

// otherScheme returns the address with https in place of http, or the reverse.
func (c *apiClient) otherScheme() string {
	if rest, ok := strings.CutPrefix(c.address, "https://"); ok {
		return "http://" + rest
	}
	return "https://" + strings.TrimPrefix(c.address, "http://")
}

// call sends a request and reads the JSON object of an answer 200 into result. The error names
// the address, the status, the reason and the next step. elsewhere is the next step if the
// address lacks the path.
func (c *apiClient) call(
	ctx context.Context, method, path string, body, result any, elsewhere string,
) (*apiAnswer, error) {
	a, err := c.send(ctx, method, path, body, exitStore)
	if err != nil {
		return nil, err
	}
	request := method + " " + strings.Split(path, "?")[0]
	if a.status != http.StatusOK {
		return nil, c.statusFailure(a, request, elsewhere)
	}
	if a.contentType != "application/json" || json.Unmarshal(a.body, result) != nil {
		return nil, usage(elsewhere,
			"%s is not a weir: its answer to %s is malformed", c.address, request)
	}
	return a, nil
}

// statusFailure returns the failure for an answer with a status other than 200.
func (c *apiClient) statusFailure(a *apiAnswer, request, elsewhere string) error {
	problem := a.problem()
	switch {
	case a.status == http.StatusUnauthorized:
		next := "name the file with its token by --token-file, or set $" + c.variable +
			"; operators' calls are answered at --admin-listen, decisions at --listen"
		return usage(next,
			"%s answers %s: authentication required: the bearer token is missing or wrong",
			c.address, a.text)
	case a.status/100 == 3 && a.location != "":
		return usage("write the address of weir itself by --url",
			"%s answers %s: it refers to %q", c.address, a.text, redact.URL(a.location))
	case bytes.Contains(a.body, []byte("HTTP request to an HTTPS server")):
		return usage("write --url "+c.otherScheme(),
			"%s answers %s: it speaks TLS", c.address, a.text)
	case a.status >= http.StatusInternalServerError:
		why := cmp.Or(problem, "it gives no reason")
		return &failure{
			code: exitStore,
			err:  fmt.Errorf("%s answers %s: %s", c.address, a.text, why),
			next: "see its log, and store_down of its /readyz",
		}
	case problem == "":
		return usage(elsewhere,
			"%s is not a weir: it answers %s to %s, without a reason", c.address, a.text, request)
	}
	if a.status != http.StatusNotFound {
		elsewhere = "" // the reason of a weir that has the path names the next step
	}
	return usage(elsewhere, "%s answers %s: %s", c.address, a.text, problem)
}

// problem returns the reason in a problem document of weir, or "" for another answer.
func (a *apiAnswer) problem() string {
	var problem struct {
		Detail string `json:"detail"`
	}
	if a.contentType != "application/problem+json" || json.Unmarshal(a.body, &problem) != nil {
		return ""
	}
	return cmp.Or(problem.Detail, answer.Shown(string(a.body)))
}

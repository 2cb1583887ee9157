package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A client is the plainest client of weir: a connection for each call, and the retries that
// docs/http-api.md and docs/resp.md describe. It checks no input, so the server does.
type client struct {
	front   string
	address string
	token   string
	tls     *tls.Config
	timeout time.Duration // of one attempt
	total   time.Duration // of a call
	retries int
	down    string // deny or allow
	http    *http.Client
}

// A callError is a call without a decision.
type callError struct {
	kind string // input, auth, unavailable, settled, expired or protocol
	text string
}

func (e *callError) Error() string { return e.kind + ": " + e.text }

// errNotSendable reports a step that a front cannot express, such as a value that is no text.
var errNotSendable = errors.New("it cannot be sent over this front")

var lastID atomic.Int64

func newClient(s *server, front, token string, o *settings) *client {
	c := &client{
		front:   front,
		address: s.RESP,
		token:   token,
		timeout: time.Duration(cmp.Or(o.TimeoutMS, 20_000)) * time.Millisecond,
		total:   time.Duration(cmp.Or(o.TotalMS, 40_000)) * time.Millisecond,
		retries: 2,
		down:    cmp.Or(o.WhenDown, "deny"),
	}
	if front == "http" {
		c.address = s.HTTP
	}
	if o.Retries != nil {
		c.retries = *o.Retries
	}
	if s.CA != "" {
		c.tls = &tls.Config{RootCAs: x509.NewCertPool()}
		c.tls.RootCAs.AppendCertsFromPEM([]byte(s.CA))
	}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls, DisableKeepAlives: true}}
	return c
}

func (c *client) close() { c.http.CloseIdleConnections() }

// call makes the call of a step, on a saved answer if it has one.
func (c *client) call(s *step, saved map[string]any) (got map[string]any, err error) {
	call := *s
	switch call.Call {
	case "take", "reserve", "refund", "wait":
		if call.ID == nil {
			call.ID = fmt.Sprint("go-", lastID.Add(1))
		}
	}
	if call.Call == "wait" && call.MaxWait == nil {
		call.MaxWait = json.Number("-1") // as long as the policy allows
	}
	deadline := time.Now().Add(c.total)
	for range c.retries + 1 {
		until := time.Now().Add(c.timeout)
		if deadline.Before(until) {
			until = deadline
		}
		if c.front == "http" {
			got, err = c.post(&call, saved, until)
		} else {
			got, err = c.command(&call, saved, until)
		}
		var failed *callError
		again := errors.As(err, &failed) && failed.kind == "unavailable"
		if !again || time.Now().After(deadline) {
			break
		}
	}
	var failed *callError
	if errors.As(err, &failed) && failed.kind == "unavailable" {
		if slices.Contains([]string{"take", "peek", "reserve", "wait"}, s.Call) {
			return c.withoutWeir(s), nil
		}
	}
	if after, _ := wholeNumber(got["start_after_ms"]); call.Call == "wait" && after > 0 {
		time.Sleep(time.Duration(after) * time.Millisecond)
	}
	return got, err
}

// withoutWeir returns the decision in an outage.
func (c *client) withoutWeir(s *step) map[string]any {
	granted := any(json.Number("0"))
	if c.down == "allow" {
		granted = cmp.Or(s.N, any(json.Number("1")))
	}
	return map[string]any{"allowed": c.down == "allow", "granted": granted, "degraded": true}
}

// expand returns a value of a case, in which {"repeat": text, "times": n} is a long text.
func expand(v any) any {
	long, ok := v.(map[string]any)
	if !ok {
		return v
	}
	n, _ := wholeNumber(long["times"])
	return strings.Repeat(long["repeat"].(string), int(n))
}

// paths are the calls over HTTP.
var paths = map[string]string{
	"take": "check", "wait": "check", "peek": "peek", "refund": "refund", "block": "block",
	"reserve": "reserve", "settle": "settle", "done": "settle", "cancel": "release",
	"extend": "extend", "add": "extend",
}

// post makes a call over HTTP.
func (c *client) post(s *step, saved map[string]any, until time.Time) (map[string]any, error) {
	method, path, body := "POST", "/v1/"+paths[s.Call], map[string]any{}
	put := func(name string, value any) {
		if value != nil {
			body[name] = expand(value)
		}
	}
	key := map[string]any{}
	for name, value := range s.Key {
		key[name] = expand(value)
	}
	if s.Policy != "" || s.Limit != nil {
		body["key"] = key
	}
	if s.Policy+s.Name != "" {
		body["policy"] = s.Policy + s.Name
	}
	if s.Limit != nil {
		body["limits"] = texts(s.Limit)
	}
	if len(s.Limits) > 0 {
		body["limit_names"] = s.Limits
	}
	put("n", s.N)
	put("id", s.ID)
	put("ttl_ms", s.TTL)
	put("for_ms", s.For)
	put("max_wait_ms", s.MaxWait)
	put("actual", s.Actual)
	put("granted_at_us", s.AtMicros)
	if s.Call == "refund" && saved != nil {
		body["at"] = cmp.Or(saved["start_at"], saved["at"])
	}
	if s.Of != "" && s.Call != "refund" {
		body["reservation"] = saved["reservation"]
	}
	if s.Call == "add" {
		body["reserved"] = cmp.Or(saved["units"], saved["granted"])
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	if s.Call == "reset" {
		method, path, text = "DELETE", "/v1/keys/"+url.PathEscape(s.Policy+s.Name)+"?"+query(key, s), nil
	}
	return c.send(s, saved, method, path, text, until)
}

// query returns a key as that of a reset.
func query(key map[string]any, s *step) string {
	q := url.Values{}
	for name, value := range key {
		q.Add(name, fmt.Sprint(value))
	}
	for _, name := range s.Limits {
		q.Add("limit", name)
	}
	for _, text := range texts(s.Limit) {
		q.Add("limits", text)
	}
	return q.Encode()
}

// texts returns the limits of a step: one text or several.
func texts(limit any) (all []string) {
	switch limit := limit.(type) {
	case string:
		return []string{limit}
	case []any:
		for _, text := range limit {
			all = append(all, fmt.Sprint(text))
		}
	}
	return all
}

func (c *client) send(s *step, saved map[string]any, method, path string, text []byte, until time.Time) (map[string]any, error) {
	scheme := "http://"
	if c.tls != nil {
		scheme = "https://"
	}
	r, err := http.NewRequest(method, scheme+c.address+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	hc := *c.http
	hc.Timeout = max(time.Until(until), time.Millisecond)
	response, err := hc.Do(r)
	if err != nil {
		if strings.Contains(err.Error(), "malformed HTTP") {
			return nil, &callError{"protocol", err.Error() + " is no answer of weir"}
		}
		return nil, &callError{"unavailable", err.Error()}
	}
	defer response.Body.Close()
	d := json.NewDecoder(response.Body)
	d.UseNumber()
	var got map[string]any
	if err := d.Decode(&got); err != nil {
		return nil, &callError{"unavailable", err.Error()}
	}
	kinds := map[int]string{400: "input", 401: "auth", 403: "auth", 404: "input", 409: "settled", 410: "expired"}
	switch kind := kinds[response.StatusCode]; {
	case kind != "":
		return nil, &callError{kind, fmt.Sprint(got["detail"])}
	case response.StatusCode == 429 && s.Call == "add":
	case response.StatusCode != 200:
		return nil, &callError{"unavailable", fmt.Sprint(got["detail"])}
	}
	complete(s, saved, got)
	return got, nil
}

// complete adds the members that an answer over HTTP leaves out.
func complete(s *step, saved, got map[string]any) {
	defaults := map[string]any{"degraded": false, "replayed": false}
	if s.Call == "extend" || s.Call == "add" {
		defaults["allowed"] = true
		defaults["units"] = cmp.Or(got["reserved"], saved["units"])
	}
	for name, value := range defaults {
		if _, ok := got[name]; !ok && value != nil {
			got[name] = value
		}
	}
	if s.Call == "add" && got["allowed"] == true {
		saved["units"] = got["units"]
	}
}

// command makes a call over RESP.
func (c *client) command(s *step, saved map[string]any, until time.Time) (map[string]any, error) {
	args, err := arguments(s, saved)
	if err != nil {
		return nil, err
	}
	conn, err := c.dial(until)
	if err != nil {
		return nil, &callError{"unavailable", err.Error()}
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	if c.token != "" {
		_, err := exchange(conn, in, []string{"AUTH", c.token})
		if err != nil && !strings.Contains(err.Error(), "requires no token") {
			return nil, err
		}
	}
	reply, err := exchange(conn, in, args)
	if err != nil {
		return nil, err
	}
	return named(s, saved, reply)
}

func (c *client) dial(until time.Time) (net.Conn, error) {
	network := "tcp"
	if strings.HasPrefix(c.address, "/") {
		network = "unix"
	}
	dialer := &net.Dialer{Deadline: until}
	var conn net.Conn
	var err error
	if c.tls != nil {
		conn, err = tls.DialWithDialer(dialer, network, c.address, c.tls)
	} else {
		conn, err = dialer.Dial(network, c.address)
	}
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(until)
}

// arguments returns a step as a command.
func arguments(s *step, saved map[string]any) ([]string, error) {
	names := map[string]string{"take": "CHECK", "wait": "CHECK", "done": "SETTLE", "cancel": "RELEASE", "add": "EXTEND"}
	args := []string{"WEIR." + cmp.Or(names[s.Call], strings.ToUpper(s.Call))}
	if s.Policy != "" || s.Limit != nil {
		args = append(args, s.Policy+s.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Key)) {
		value, ok := expand(s.Key[name]).(string)
		if !ok {
			return nil, errNotSendable
		}
		args = append(args, name+"="+value)
	}
	if s.Call == "refund" {
		args = append(args, fmt.Sprint(cmp.Or(s.AtMicros, saved["start_at_us"], saved["at_us"])))
	}
	if s.Of != "" && s.Call != "refund" {
		args = append(args, fmt.Sprint(saved["reservation"]))
	}
	for _, number := range []any{s.N, s.For, s.Actual} {
		if _, text := number.(string); text {
			return nil, errNotSendable
		}
		if number != nil {
			args = append(args, fmt.Sprint(number))
		}
	}
	if s.Call == "add" {
		args = append(args, fmt.Sprint(cmp.Or(saved["units"], saved["granted"])))
	}
	for _, option := range []struct {
		name  string
		value any
	}{{"TTL", s.TTL}, {"WAIT", s.MaxWait}, {"ID", expand(s.ID)}} {
		if option.value != nil {
			args = append(args, option.name, fmt.Sprint(option.value))
		}
	}
	for _, name := range s.Limits {
		args = append(args, "LIMIT", name)
	}
	for _, text := range texts(s.Limit) {
		args = append(args, "LIMITS", text)
	}
	return args, nil
}

// exchange sends a command and returns its reply.
func exchange(conn io.Writer, in *bufio.Reader, args []string) (any, error) {
	text := fmt.Sprintf("*%d\r\n", len(args))
	for _, a := range args {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		return nil, &callError{"unavailable", err.Error()}
	}
	return readReply(in)
}

// readReply reads a reply: an int64, a string, or a list of these.
func readReply(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, &callError{"unavailable", err.Error()}
	}
	line = strings.TrimSuffix(line, "\r\n")
	n, notNumber := strconv.ParseInt(line[min(1, len(line)):], 10, 64)
	switch {
	case strings.HasPrefix(line, "+"):
		return line[1:], nil
	case strings.HasPrefix(line, "-"):
		return nil, replyError(line[1:])
	case strings.HasPrefix(line, ":") && notNumber == nil:
		return n, nil
	case strings.HasPrefix(line, "$") && notNumber == nil:
		text := make([]byte, n+2)
		if _, err := io.ReadFull(in, text); err != nil {
			return nil, &callError{"unavailable", err.Error()}
		}
		return string(text[:n]), nil
	case strings.HasPrefix(line, "*") && notNumber == nil:
		list := make([]any, n)
		for i := range list {
			if list[i], err = readReply(in); err != nil {
				return nil, err
			}
		}
		return list, nil
	}
	return nil, &callError{"protocol", strconv.Quote(line) + " is no answer of weir"}
}

// replyError returns an error of the server.
func replyError(text string) error {
	kinds := map[string]string{
		"ERR": "input", "NOAUTH": "auth", "WRONGPASS": "auth", "NOPERM": "auth",
		"UNAVAILABLE": "unavailable", "SETTLED": "settled", "EXPIRED": "expired",
	}
	code, rest, _ := strings.Cut(text, " ")
	return &callError{cmp.Or(kinds[code], "protocol"), rest}
}

// decisionNames are those of the elements of a decision.
var decisionNames = []string{
	"allowed", "granted", "remaining", "retry_after_ms", "reset_after_ms", "limit", "at_us", "degraded", "cached",
}

// replyNames are those of the elements behind a decision, or of the whole answer. No case refunds
// at the start of a replay, which is 0.
var replyNames = map[string][]string{
	"take": {"replayed"}, "wait": {"replayed", "start_at_us", "start_after_ms"},
	"reserve": {"reservation", "expires_us", "replayed"},
	"extend":  {"units", "expires_us"}, "add": {"units", "expires_us"},
	"settle": {"reserved", "actual", "refunded", "recorded"},
	"reset":  {"reset", "kept"}, "block": {"limits", "blocked_until_us"},
}

// named returns a reply with the names of HTTP.
func named(s *step, saved map[string]any, reply any) (map[string]any, error) {
	if s.Call == "refund" {
		return map[string]any{"refunded": reply}, nil
	}
	list, ok := reply.([]any)
	if !ok {
		return nil, &callError{"protocol", fmt.Sprint(reply, " is no answer of weir")}
	}
	call := s.Call
	if call == "done" || call == "cancel" {
		call = "settle"
	}
	names := replyNames[call]
	if !slices.Contains([]string{"settle", "reset", "block"}, call) {
		names = slices.Concat(decisionNames, names)
	}
	got := map[string]any{"replayed": false}
	for i, value := range list[:min(len(list), len(names))] {
		if slices.Contains([]string{"allowed", "degraded", "cached", "replayed"}, names[i]) {
			value = value == int64(1)
		}
		got[names[i]] = value
	}
	if s.Call == "add" && got["allowed"] == true {
		saved["units"] = got["units"]
	}
	return got, nil
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpguts"

	"github.com/weirlimit/weir/cmd/weir/internal/audit"
	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/internal/duration"
	"github.com/weirlimit/weir/internal/shorten"
)

// auditOptions are the flags of weir audit.
type auditOptions struct {
	plan      audit.Plan
	url       string
	method    string
	header    http.Header
	denied    []int
	allowHost string
}

func auditCommand() *cobra.Command {
	o := auditOptions{
		plan:   audit.Plan{Requests: 20_000, Time: 30 * time.Minute},
		header: http.Header{},
	}
	cmd := newCommand("audit [-- COMMAND ...]", "Find the worst window that a limiter allows",
		cobra.ArbitraryArgs, o.run)
	f := cmd.Flags()
	f.SortFlags = false // the required flags stand first
	f.StringVar(&o.url, "url", "", "the `URL` of a page with the limit")
	limit := &intValue{
		to: &o.plan.Limit, least: 1, most: math.MaxInt32,
		next: "write --limit 20, for example",
	}
	f.Var(limit, "limit", "the requests that the limiter allows in a window")
	window := &durationValue{
		to:    &o.plan.Window,
		least: 100 * time.Millisecond,
		next:  "write --window 1s, for example",
	}
	f.Var(window, "window", "the window of the limit, 100ms or more")
	f.Lookup("window").DefValue = "" // the flag is required and has no default
	f.StringVar(&o.method, "method", http.MethodGet, "the `METHOD` of the requests")
	f.Var(&parsedValue{parse: o.addHeader}, "header",
		"a `FIELD` of the requests, such as 'X-Api-Key: test'; repeat it for several")
	denied := &parsedValue{parse: appendEach(&o.denied, parseStatus), standard: "429,503"}
	f.Var(denied, "denied", "the `STATUS` of a denial, or several with commas")
	f.StringVar(&o.allowHost, "allow-host", "",
		"send the requests to this other `HOST` without a question")
	requests := &intValue{
		to: &o.plan.Requests, least: 1, most: math.MaxInt32,
		next: "write --max-requests 20_000, for example",
	}
	f.Var(requests, "max-requests", "the requests, at most")
	limitOfTime := &durationValue{
		to:    &o.plan.Time,
		least: time.Second,
		next:  "write --max-time 30m, for example",
	}
	f.Var(limitOfTime, "max-time", "the time, at most")
	return withJSON(cmd, "print the result as one JSON object")
}

// run audits the limiter of --url or of a command, and prints the result.
func (o *auditOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.check(cmd, args); err != nil {
		return err
	}
	var target audit.Target
	if len(args) == 0 {
		web, err := o.openWeb(cmd)
		if err != nil {
			return err
		}
		target = web
	} else if err := o.checkNeeds(cmd, 1, o.name(args)); err != nil {
		return err
	}
	// From here on Ctrl-C ends the audit and prints the result so far. The terminal sends the
	// signal to the audited program as well.
	ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if target == nil {
		p, err := audit.StartProgram(args, cmd.ErrOrStderr(), o.plan.Window)
		if err != nil {
			return auditFailure(o.name(args), err)
		}
		defer p.Close()
		target = p
	}
	result, err := audit.Run(ctx, target, o.plan)
	if err != nil {
		return auditFailure(o.name(args), err)
	}
	if err := printResult(cmd, cmd.OutOrStdout(), result, result.Write); err != nil {
		return err
	}
	switch result.Verdict {
	case audit.Held:
		return nil
	case audit.Broken:
		return errDenied
	}
	code := exitUsage
	if result.Away {
		code = exitStore
	}
	return &failure{code: code, err: errors.New("no verdict: " + result.Why), next: result.Next}
}

// openWeb returns the service of --url as the target. It fails if the audit exceeds the bounds,
// or if the user does not permit requests to the host.
func (o *auditOptions) openWeb(cmd *cobra.Command) (*audit.Web, error) {
	r, err := o.newRequest()
	if err != nil {
		return nil, err
	}
	web := audit.NewWeb(r, o.denied, o.plan.Window)
	if err := o.checkNeeds(cmd, web.Callers(), o.name(nil)); err != nil {
		return nil, err
	}
	return web, o.confirm(cmd, r.URL.Hostname())
}

// name returns the name of the target for messages.
func (o *auditOptions) name(args []string) string {
	if len(args) > 0 {
		return shorten.Text(args[0])
	}
	return redact.URL(o.url)
}

// auditFailure returns the failure for an audit that ended without a result.
func auditFailure(target string, err error) error {
	problem, ok := errors.AsType[*audit.Problem](err)
	if !ok {
		return err
	}
	code := exitUsage
	if problem.Away {
		code = exitStore
	}
	return &failure{code: code, err: fmt.Errorf("%s %w", target, problem), next: problem.Next}
}

// check rejects a command line that does not name exactly one target and one limit.
func (o *auditOptions) check(cmd *cobra.Command, args []string) error {
	hasURL := o.url != ""
	isProgram := cmd.ArgsLenAtDash() == 0 && len(args) > 0
	switch {
	case len(args) > 0 && !isProgram:
		return usage("write --url URL for a service, or -- and a command",
			"%q is one argument too many; a command stands behind --", args[0])
	case hasURL && isProgram:
		return usage("leave out one of the two", "--url and a command name two limiters")
	case !hasURL && !isProgram:
		return usage("write one such as --url http://127.0.0.1:8080/, or -- and a command",
			"--url is missing")
	case o.plan.Limit == 0:
		return usage("write the number of requests in a window, such as --limit 20",
			"--limit is missing")
	case o.plan.Window == 0:
		return usage("write the window of the limit, such as --window 1s", "--window is missing")
	case o.plan.Window%time.Millisecond != 0:
		return usage("write one such as --window 250ms",
			"--window must be whole milliseconds, not %v", o.plan.Window)
	}
	return nil
}

// checkNeeds prints the requests and the time that the audit needs. It rejects a plan that
// exceeds --max-requests or --max-time.
func (o *auditOptions) checkNeeds(cmd *cobra.Command, callers int, target string) error {
	needs := o.plan.Needs(callers)
	if needs.Requests > o.plan.Requests {
		next := fmt.Sprintf("audit the limiter with a smaller limit, or write --max-requests %d",
			needs.Requests)
		return usage(next, "a limit of %d needs up to %d requests, and --max-requests is %d",
			o.plan.Limit, needs.Requests, o.plan.Requests)
	}
	needed := needs.Time.Round(time.Second)
	if needs.Time > o.plan.Time {
		next := fmt.Sprintf("audit the limiter with a shorter window, or write --max-time %v",
			needed+time.Minute)
		return usage(next, "a window of %s needs up to %v, and --max-time is %v",
			duration.Format(o.plan.Window), needed, o.plan.Time)
	}
	_, err := fmt.Fprintf(cmd.ErrOrStderr(),
		"weir audit: %d moves on %s, up to %d requests in %v\n",
		needs.Moves, target, needs.Requests, max(needed, time.Second))
	return err
}

// newRequest returns the request of --url, --method and --header. It also sets the default of
// --denied.
func (o *auditOptions) newRequest() (*http.Request, error) {
	u, err := url.Parse(o.url)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, usage("write one such as --url http://127.0.0.1:8080/",
			"--url is not an address of a page: %q", redact.URL(o.url))
	}
	r, err := http.NewRequest(o.method, o.url, nil)
	if err != nil {
		return nil, usage("write one such as --method POST", "--method is wrong: %q", o.method)
	}
	r.Header = o.header
	if host := o.header.Get("Host"); host != "" {
		r.Host = host
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "weir-audit")
	}
	if len(o.denied) == 0 {
		o.denied = []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}
	}
	return r, nil
}

// addHeader adds a field of --header.
func (o *auditOptions) addHeader(text string) error {
	name, value, found := strings.Cut(text, ":")
	value = strings.TrimSpace(value)
	if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return usage("write one such as --header 'X-Api-Key: test'", "is not a field of a request")
	}
	o.header.Add(textproto.CanonicalMIMEHeaderKey(name), value)
	return nil
}

// parseStatus reads a status of --denied.
func parseStatus(text string) (int, error) {
	status, err := strconv.Atoi(text)
	if err != nil || status < 300 || status > 599 {
		return 0, usage("write one such as --denied 403",
			"takes a status from 300 to 599, not %q", text)
	}
	return status, nil
}

// confirm requires the permission to send requests to another host: --allow-host, or y on the
// terminal.
func (o *auditOptions) confirm(cmd *cobra.Command, host string) error {
	if isLoopback(host) || host == o.allowHost {
		return nil
	}
	if o.allowHost != "" {
		return usage("write --allow-host "+host,
			"--allow-host is %s, and --url has the host %s", o.allowHost, host)
	}
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !isTerminal(in) {
		return usage("write --allow-host "+host+" if its owner agrees to the load",
			"%s is another host, and there is no terminal for a question", host)
	}
	fmt.Fprintf(cmd.ErrOrStderr(),
		"%s is another host. Does its owner agree to the load? [y/N] ", host)
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && err != io.EOF {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return usage("answer y, or write --allow-host "+host, "nothing was sent to %s", host)
}

// isTerminal reports whether a file is probably a terminal. /dev/null is a character device
// too, but no terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err == nil && !os.SameFile(info, null)
}

// isLoopback reports whether the host of a URL is certainly this machine. It resolves no names.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

package audit

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/weirlimit/weir/cmd/weir/internal/redact"
	"github.com/weirlimit/weir/internal/duration"
)

// Web is a service that is asked over HTTP. A status of 2xx is allowed.
type Web struct {
	client  http.Client
	request *http.Request // each request is a copy of it
	denied  []int         // the statuses of a denial
	timeout time.Duration // for one answer
}

// maxBody is the longest body of an answer that is read, in bytes. A connection with more is
// closed.
const maxBody = 1 << 20

// NewWeb returns the service to which a request goes. A limiter may delay requests for a window, so
// the time for an answer depends on the window.
func NewWeb(request *http.Request, denied []int, window time.Duration) *Web {
	w := &Web{
		request: request,
		denied:  denied,
		timeout: min(max(2*window, 2*time.Second), 30*time.Second),
	}
	w.client.Transport = &http.Transport{MaxIdleConnsPerHost: callersTogether}
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the limit of another address is not that of this one
	}
	return w
}

// Callers returns how many callers may use Ask at one time.
func (w *Web) Callers() int { return callersTogether }

// Ask sends one request.
func (w *Web) Ask(ctx context.Context) (Answer, error) {
	timed, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	res, err := w.client.Do(w.request.Clone(timed))
	if err != nil {
		return Answer{}, w.unanswered(timed, err)
	}
	defer res.Body.Close()
	n, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxBody+1))
	if err != nil || n > maxBody {
		return Answer{}, &Problem{
			Reason: fmt.Sprintf("answers with a body that does not end within %s and 1MiB",
				duration.Format(w.timeout)),
			Next: "name a short page of the same limit, or write --method HEAD",
		}
	}
	a := Answer{Word: strconv.Itoa(res.StatusCode)}
	switch {
	case slices.Contains(w.denied, res.StatusCode):
	case res.StatusCode/100 == 2:
		a.Allowed = true
	default:
		return Answer{}, w.undecided(res)
	}
	return a, nil
}

// unanswered returns the problem of a request without an answer. Its reason has no address of the
// caller, so equal causes are counted together.
func (w *Web) unanswered(ctx context.Context, err error) *Problem {
	err = redact.Error(err)
	p := &Problem{
		Reason: fmt.Sprintf("does not answer: %v", err),
		Next:   "is the service up, and is --url right?",
		Away:   true,
	}
	errno, isErrno := errors.AsType[syscall.Errno](err)
	_, isName := errors.AsType[*net.DNSError](err)
	_, isAuthority := errors.AsType[x509.UnknownAuthorityError](err)
	isEnd := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		p.Reason = "does not answer within " + duration.Format(w.timeout)
	case isErrno:
		p.Reason = "does not answer: " + errno.Error()
	case isEnd:
		p.Reason = "does not answer: it closes the connection"
	case isName:
		p.Next = "is the host's name right?"
	case isAuthority:
		p.Next = "set SSL_CERT_FILE to the PEM file of the authority that signed its certificate"
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"): // it has no type
		p.Next = "it does not speak TLS; write --url http://…"
	}
	return p
}

// undecided returns the problem of an answer that neither allows nor denies.
func (w *Web) undecided(res *http.Response) *Problem {
	status := res.StatusCode
	p := &Problem{Reason: "answers " + strings.TrimSpace(res.Status)}
	location, _ := res.Location()
	switch {
	case status/100 == 3 && location != nil:
		p.Reason += ": it refers to " + redact.URL(location.String())
		p.Next = "write the address of the limited page itself by --url"
	case status == http.StatusUnauthorized:
		p.Next = "add what it requires, such as --header 'Authorization: Bearer …'"
	case status == http.StatusNotFound:
		p.Next = "is the path of --url right?"
	case status == http.StatusMethodNotAllowed:
		p.Next = "write the method that it takes, such as --method POST"
	case status/100 == 5:
		p.Next = "see the log of the service"
		p.Away = true
	default:
		p.Next = fmt.Sprintf("does it need another --header or --method? "+
			"if that is its denial, write --denied %d", status)
	}
	return p
}

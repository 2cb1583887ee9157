package store

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/weirlimit/weir/weirredis"
)

// explain returns an error with the target, the problem and the next step.
func (t *target) explain(err error) error {
	if errors.Is(err, weirredis.ErrServer) {
		return fmt.Errorf("store: %s: %w", t, err)
	}
	if call, ok := errors.AsType[*weirredis.StoreError](err); ok {
		err = call.Err
	}
	if rejected, ok := errors.AsType[weirredis.ReplyError](err); ok {
		return t.replyError(rejected)
	}
	switch {
	case isA[tls.RecordHeaderError](err):
		return t.errorf(ErrRefused, "it does not speak TLS",
			"write %s:// for a server without", t.otherScheme())
	case isA[x509.UnknownAuthorityError](err):
		return t.errorf(ErrRefused, err.Error(),
			"name the file of the authority that signed it with ?ca=FILE")
	case isA[*tls.CertificateVerificationError](err):
		return t.errorf(ErrRefused, err.Error(),
			"write the host that its certificate names, or renew the certificate")
	case isForeign(err):
		return t.errorf(ErrRefused, "the answer is not of Redis's protocol",
			"are host and port right, and is it Redis or Valkey?")
	case isA[*net.DNSError](err):
		return t.errorf(ErrUnreachable, err.Error(), "is the host's name right?")
	case isTimeout(err) && t.tls:
		return t.errorf(ErrUnreachable, "no answer over TLS in time",
			"does it speak TLS? write %s:// if it does not", t.otherScheme())
	case isTimeout(err):
		return t.errorf(ErrUnreachable, "no answer in time",
			"is it overloaded or stopped, or does a firewall drop its packets?")
	case isClosed(err) && !t.tls:
		return t.errorf(ErrUnreachable, "it closes the connection",
			"does it speak TLS? then write %s://", t.otherScheme())
	}
	return t.errorf(ErrUnreachable, err.Error(), "does it run, and does it listen there?")
}

// errorf returns an error of a kind with the target, the problem and the next step.
func (t *target) errorf(kind error, problem, next string, args ...any) error {
	return fmt.Errorf("%w: %s: %s; %s", kind, t, problem, fmt.Sprintf(next, args...))
}

// replyError returns the error for a server's error reply.
func (t *target) replyError(r weirredis.ReplyError) error {
	text := string(r)
	lower := strings.ToLower(text)
	contains := func(parts ...string) bool {
		isPart := func(part string) bool { return strings.Contains(lower, part) }
		return slices.ContainsFunc(parts, isPart)
	}
	word, _, _ := strings.Cut(text, " ")
	server, _, _ := strings.Cut(t.scheme, "+") // redis or rediss
	switch {
	case word == "NOAUTH":
		return t.errorf(ErrRefused, "it requires a password (NOAUTH)",
			"set %s, or write %s://:PASSWORD@host", passwordVariable, t.scheme)
	case word == "WRONGPASS" || contains("invalid password"):
		return t.errorf(ErrRefused, "it rejects user or password (WRONGPASS)",
			"check them, in the URL or in %s and %s", usernameVariable, passwordVariable)
	case word == "READONLY" || word == "MASTERDOWN":
		return t.errorf(ErrUnreachable, text,
			"it is a replica: connect to the primary, or wait for the end of a failover")
	case word == "NOPERM" || contains("the user executing the script", "acl failure in script"):
		return t.errorf(ErrRefused, text,
			"its user needs +@scripting +@hash +@string +@keyspace +time +info on keys %sweir*",
			t.prefix)
	case contains("db index is out of range"):
		return t.errorf(ErrRefused, fmt.Sprintf("it has no database %d", t.db),
			"use a lower number, mostly 0")
	case contains("select is not allowed in cluster mode"):
		return t.errorf(ErrURL, "a Cluster has no database but 0",
			"leave out the / and the text after it")
	case contains("no such master"):
		return t.errorf(ErrRefused, fmt.Sprintf("the Sentinel has no master %q", t.master),
			"write the name in its line `sentinel monitor NAME …`")
	case contains("command called from script"):
		return t.errorf(ErrRefused, text,
			"a rename-command or a proxy disables a command that Weir needs: end that")
	case contains("unknown command") && contains("sentinel"):
		return t.errorf(ErrRefused, "it is not a Sentinel",
			"write %s:// for a server, or the Sentinel's own port, mostly 26379", server)
	case contains("unknown command"):
		return t.errorf(ErrRefused, "it cannot run scripts",
			"is it a Sentinel? then write %s+sentinel://host/NAME; "+
				"or too old? then use Redis 6.2 or later, or Valkey", server)
	}
	return t.errorf(ErrUnreachable, text, "wait, or look at its log")
}

// otherScheme returns the scheme with TLS if the target has none, or the reverse.
func (t *target) otherScheme() string {
	if t.tls {
		return strings.Replace(t.scheme, "rediss", "redis", 1)
	}
	return strings.Replace(t.scheme, "redis", "rediss", 1)
}

// isForeign reports whether the reply was not of Redis's protocol. The client has no
// error value for it.
func isForeign(err error) bool {
	signs := []string{"received unknown message type", "received unexpected", "parse error"}
	isPart := func(sign string) bool { return strings.Contains(err.Error(), sign) }
	return slices.ContainsFunc(signs, isPart)
}

func isTimeout(err error) bool {
	t, ok := errors.AsType[net.Error](err)
	return errors.Is(err, context.DeadlineExceeded) || ok && t.Timeout()
}

// isA reports whether an error in the tree of err has a type.
func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

func isClosed(err error) bool {
	ends := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE}
	return slices.ContainsFunc(ends, func(end error) bool { return errors.Is(err, end) })
}

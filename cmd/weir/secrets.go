package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/weirlimit/weir/cmd/weir/internal/listen"
	"github.com/weirlimit/weir/internal/filewatch"
)

// loadCredentials reads the secrets and the certificates of the listeners into the
// configuration. It returns the watcher that reloads them.
func (o *serveOptions) loadCredentials(table settings, log *slog.Logger) (*filewatch.Watcher, error) {
	warn := func(err error) { log.Warn("a secret is not protected", "why", err) }
	c := &o.config
	var paths []string
	var files []interface{ Reload() error }
	for _, f := range []struct {
		name string
		to   **listen.Secret
	}{
		{"token-file", &c.Auth.Token},
		{"admin-token-file", &c.Auth.Admin},
		{"gate-secret-file", &c.Auth.Gate},
	} {
		setting := table.setting(f.name)
		if setting.source == "" {
			continue
		}
		path, text, err := setting.secretSource()
		switch {
		case err != nil:
		case path != "":
			*f.to, err = listen.SecretFile(path, warn)
			paths = append(paths, path)
			files = append(files, *f.to)
		default:
			*f.to, err = listen.SecretText(text)
		}
		if err != nil {
			return nil, usage(secretHint(err), "%s: %w", setting.label(), err)
		}
	}
	if o.tls != (listen.TLSFiles{}) {
		var err error
		if c.TLS, err = listen.LoadTLS(o.tls, warn); err != nil {
			next := ""
			if isFileError(err) {
				next = "name PEM files that weir can read by --tls-cert, --tls-key and --tls-client-ca"
			}
			return nil, usage(next, "TLS: %w", err)
		}
		paths = append(paths, o.tls.Cert, o.tls.Key, o.tls.ClientCA)
		files = append(files, c.TLS)
	}
	return newSecretReloader(paths, func() {
		for _, f := range files {
			if err := f.Reload(); err != nil {
				log.Error("a changed secret or certificate is invalid; the previous one stays",
					"error", err)
			}
		}
	}), nil
}

// isFileError reports whether a file cannot be read.
func isFileError(err error) bool {
	_, is := errors.AsType[*fs.PathError](err)
	return is
}

// secretHint returns the next step for a secret file that cannot be read. Other errors of
// secrets name the next step themselves.
func secretHint(err error) string {
	if isFileError(err) {
		return "name a file that weir can read, with the secret in a line; " +
			"openssl rand -hex 32 makes a good one"
	}
	return ""
}

// newSecretReloader returns a watcher that calls reload when the size or the modification time
// of a file at paths changes.
func newSecretReloader(paths []string, reload func()) *filewatch.Watcher {
	read := func() (found []byte, _ error) {
		for _, path := range paths {
			// Stat follows links, because Kubernetes replaces a link.
			if info, err := os.Stat(path); err == nil {
				found = fmt.Appendln(found, info.Size(), info.ModTime().UnixNano())
			} else {
				found = fmt.Appendln(found, err)
			}
		}
		return found, nil
	}
	seen, _ := read()
	changed := func([]byte, error) error {
		reload()
		return nil
	}
	return &filewatch.Watcher{Seen: seen, Read: read, Changed: changed}
}

// secretSource returns the path of a file with the secret, or the secret itself from the
// environment. It fails if both are set.
func (s *setting) secretSource() (path, text string, err error) {
	path = s.value.String()
	text, set := os.LookupEnv(s.variables[0])
	if set && path != "" {
		return "", "", errors.New("$" + s.variables[0] + " is set as well; leave out one of them")
	}
	return path, text, nil
}

// readSharedSecret returns a secret that several weir serve share, or "" if none is set. Unlike
// the secrets of callers it is never reloaded.
func (s *setting) readSharedSecret(log *slog.Logger) (string, error) {
	path, text, err := s.secretSource()
	if err == nil && path != "" {
		text, err = listen.ReadSecret(path,
			func(err error) { log.Warn("a secret is not protected", "why", err) })
	}
	switch text = strings.TrimSpace(text); {
	case err != nil || s.source == "":
	case len(text) < listen.MinSecret:
		err = errors.New("the secret is shorter than 16 characters; openssl rand -hex 32 makes a good one")
	case strings.ContainsAny(text, "\r\n"):
		err = errors.New("there are several lines, and this secret has no second one; keep one line")
	}
	if err != nil {
		return "", usage(secretHint(err), "%s: %w", s.label(), err)
	}
	return text, nil
}

package main

import (
	"errors"
	"log/slog"
	"os"
	"strings"

	"github.com/weirlimit/weir/internal/listen"
)

// reservationVariable holds what --reservation-secret-file names otherwise.
const reservationVariable = "WEIR_RESERVATION_SECRET"

// reservationSecret reads what seals the ids of reservations; "" if nothing is set.
func reservationSecret(file string, log *slog.Logger) (string, error) {
	text, set := os.LookupEnv(reservationVariable)
	if file == "" && !set {
		return "", nil
	}
	what := "$" + reservationVariable
	var err error
	if file != "" {
		what = "--reservation-secret-file"
		if set {
			err = errors.New("$" + reservationVariable + " is set as well; leave one of them out")
		} else {
			text, err = readSecret(file, log)
		}
	}
	if text = strings.TrimSpace(text); err == nil && len(text) < listen.MinSecret {
		err = errors.New("the secret is shorter than 16 characters; openssl rand -hex 32 makes a good one")
	}
	if err != nil {
		return "", usage("", "%s: %w", what, err)
	}
	return text, nil
}

// readSecret reads a file that must be small, and that others should not read.
func readSecret(file string, log *slog.Logger) (string, error) {
	const most = 4 << 10
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return "", errors.New(file + " is no file of at most 4 KiB")
	}
	if err := listen.CheckPrivate(file, info); err != nil {
		log.Warn("a secret is not protected", "why", err)
	}
	b, err := os.ReadFile(file)
	return string(b), err
}

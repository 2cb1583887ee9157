//go:build !linux

package recorder

import "errors"

func mountTiny(string) error { return errors.ErrUnsupported }

func unmount(string) {}

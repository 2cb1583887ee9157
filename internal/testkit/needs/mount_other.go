//go:build !linux

package needs

import "errors"

func mount(dir, size string) error { return errors.ErrUnsupported }

func unmount(dir string) error { return nil }

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package weirdisk

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// noFollow makes an open fail on a symbolic link, which could lead to a file of another user.
const noFollow = syscall.O_NOFOLLOW

// checkAccess returns an error for a directory in which the process may not create files. Unless
// anyAccess is set, it also returns one if others can replace the files: the owner is neither
// this user nor root, or all users can write there. The group may write, as in a volume of
// Kubernetes with an fsGroup.
func checkAccess(dir string, anyAccess bool) error {
	const write = 2
	if err := syscall.Access(dir, write); err != nil || anyAccess {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 && int(owner) != os.Geteuid() {
		return fmt.Errorf("%w: user %d owns it, and this process has user %d", errAccess, owner, os.Geteuid())
	}
	if info.Mode()&0o002 != 0 {
		return fmt.Errorf("%w: everybody can write to it (mode %04o)", errAccess, info.Mode().Perm())
	}
	return nil
}

// lockDir locks the directory by its lock file until the file is closed or the process
// ends. The file names the holder. Without create, as for Check, the file must exist already
// and is not written.
func lockDir(path string, create bool) (*os.File, error) {
	flags := os.O_RDONLY
	if create {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := openFile(path, flags)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if err != syscall.EWOULDBLOCK {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		holder, _ := io.ReadAll(io.LimitReader(f, 300))
		return nil, fmt.Errorf("%w: %s is locked by %s; stop it, or use another directory", ErrInUse, filepath.Dir(path), strings.TrimSpace(string(holder)))
	}
	if !create {
		return f, nil
	}
	host, _ := os.Hostname()
	// The name overwrites the last one, because a full disk still has that room.
	name := fmt.Sprintf("process %d on host %s\n", os.Getpid(), host)
	if _, err = f.WriteAt([]byte(name), 0); err == nil {
		err = f.Truncate(int64(len(name)))
	}
	if err != nil {
		f.Close()
	}
	return f, err
}

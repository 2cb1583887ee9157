//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package weirdisk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
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
		return fmt.Errorf("%w: user %d owns it, and this process has user %d",
			errAccess, owner, os.Geteuid())
	}
	if info.Mode()&0o002 != 0 {
		return fmt.Errorf("%w: every user can write to it (mode %04o)",
			errAccess, info.Mode().Perm())
	}
	return nil
}

// lockDir locks a directory until the files are closed or the process ends. The lock of the
// directory itself cannot be deleted by mistake, as the lock file can. A file server may keep only
// the lock of the file for its other machines. The file names the holder. Without create, as for
// Check, it need not exist and is not written.
func lockDir(dir string, create bool) (l dirLock, err error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	l = dirLock{d}
	path := filepath.Join(dir, lockName)
	flags := os.O_RDONLY
	if create {
		flags = os.O_RDWR | os.O_CREATE
	}
	f, err := openFile(path, flags)
	if err == nil {
		l = append(l, f)
	} else if !create && errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	for i := 0; i < len(l) && err == nil; i++ {
		err = syscall.Flock(int(l[i].Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		err = os.NewSyscallError("flock", err)
	}
	if err == nil && create {
		err = writeHolder(f)
	}
	if err == nil {
		return l, nil
	}
	l.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := readFile(path, maxManifest)
		err = fmt.Errorf("%w: %s is locked by %s; stop it, or use another directory", ErrInUse, dir,
			cmp.Or(strings.TrimSpace(string(holder)), "another process"))
	}
	return nil, err
}

// writeHolder names this process in the lock file. The name overwrites the last one, because a full
// disk still has that room.
func writeHolder(f *os.File) error {
	host, _ := os.Hostname()
	name := fmt.Sprintf("process %d on host %s\n", os.Getpid(), host)
	if _, err := f.WriteAt([]byte(name), 0); err != nil {
		return err
	}
	return f.Truncate(int64(len(name)))
}

package recorder

import "syscall"

// mountTiny mounts a file system of 64 KiB, which only root may do.
func mountTiny(dir string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k") }

func unmount(dir string) { syscall.Unmount(dir, syscall.MNT_DETACH) }

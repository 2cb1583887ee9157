package needs

import "syscall"

func mount(dir, size string) error {
	return syscall.Mount("weir-test", dir, "tmpfs", 0, "mode=700,size="+size)
}

func unmount(dir string) error { return syscall.Unmount(dir, syscall.MNT_DETACH) }

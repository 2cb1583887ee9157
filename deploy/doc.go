// Package deploy has files that run weir serve elsewhere: a systemd unit, an image, and
// manifests for Kubernetes. Its tests start weir with the flags in those files.
// docs/service.md explains the files.
package deploy

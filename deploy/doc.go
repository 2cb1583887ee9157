// Package deploy holds files that run weir serve elsewhere: a systemd unit, an image, and
// manifests for Kubernetes. Its tests start weir with the very flags that stand in
// those files; docs/service.md explains them.
package deploy

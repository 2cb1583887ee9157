package deploy

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wantKept uses up the limit of a gate, restarts weir, and expects a denial. It ends the
// weir that it is given.
func wantKept(t *testing.T, w *weir, start func() *weir, gate string, header http.Header) {
	t.Helper()
	status := 0
	for range 1000 {
		if status, _ = w.get(w.main, gate, header); status == http.StatusTooManyRequests {
			break
		}
	}
	if status != http.StatusTooManyRequests {
		t.Fatalf("%s: status %d after 1,000 requests, want a denial", gate, status)
	}
	w.stop()
	w = start()
	if status, body := w.get(w.main, gate, header); status != http.StatusTooManyRequests {
		t.Errorf("%s after a restart: status %d, %s; want the denial again", gate, status, body)
	}
	w.stop()
}

// statefulSet is the part of a StatefulSet that the tests look at.
type statefulSet struct {
	Spec struct {
		Replicas int
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     pod
		}
		VolumeClaimTemplates []struct {
			Metadata struct{ Name string }
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
			}
		} `yaml:"volumeClaimTemplates"`
	}
}

const disk = "../kubernetes-disk"

// TestDiskManifests: the pod with a disk replaces the Deployment and keeps all else.
func TestDiskManifests(t *testing.T) {
	var all struct {
		Resources []string
		Patches   []struct{ Patch string }
	}
	load(t, filepath.Join(disk, "kustomization.yaml"), &all)
	if !slices.Equal(all.Resources, []string{"../kubernetes", "statefulset.yaml"}) || len(all.Patches) != 1 || !strings.Contains(all.Patches[0].Patch, "$patch: delete\napiVersion: apps/v1\nkind: Deployment") {
		t.Errorf("%+v; want the StatefulSet and no Deployment", all)
	}
	var d deployment
	load(t, "deployment.yaml", &d)
	var s statefulSet
	load(t, filepath.Join(disk, "statefulset.yaml"), &s)
	pod, shared := s.Spec.Template.Spec, d.Spec.Template.Spec
	if s.Spec.Replicas != 1 || s.Spec.Template.Metadata.Labels["app.kubernetes.io/name"] != "weir" {
		t.Errorf("%d replicas with the labels %v; a directory is of one process", s.Spec.Replicas, s.Spec.Template.Metadata.Labels)
	}
	if pod.SecurityContext != shared.SecurityContext || *pod.AutomountServiceAccountToken {
		t.Errorf("the pod's rights differ from the Deployment's: %+v", pod.SecurityContext)
	}
	c := pod.Containers[0]
	if !c.SecurityContext.ReadOnlyRootFilesystem || *c.SecurityContext.AllowPrivilegeEscalation || !slices.Equal(c.SecurityContext.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("the container is not confined: %+v", c.SecurityContext)
	}
	same := slices.DeleteFunc(slices.Clone(shared.Containers[0].Args), func(arg string) bool { return strings.HasPrefix(arg, "--instances=") })
	for i, arg := range same {
		if strings.HasPrefix(arg, "--store=") {
			same[i] = "--store=file:/var/lib/weir/store"
		}
	}
	if !slices.Equal(c.Args, same) {
		t.Errorf("arguments %q, want %q", c.Args, same)
	}
	claims := s.Spec.VolumeClaimTemplates
	if len(claims) != 1 || !slices.Equal(claims[0].Spec.AccessModes, []string{"ReadWriteOnce"}) {
		t.Fatalf("claims %+v, want one disk", claims)
	}
	for _, m := range c.VolumeMounts {
		if (m.MountPath == "/var/lib/weir") != (m.Name == claims[0].Metadata.Name) || m.ReadOnly == (m.MountPath == "/var/lib/weir") {
			t.Errorf("mount %+v: only the disk can be written", m)
		}
	}
}

// TestDiskPodKeepsItsLimits starts weir with the arguments of the StatefulSet, twice.
func TestDiskPodKeepsItsLimits(t *testing.T) {
	var s statefulSet
	load(t, filepath.Join(disk, "statefulset.yaml"), &s)
	var m struct{ Data map[string]string }
	load(t, "policies.yaml", &m)
	start := func() *weir {
		return startWeir(t, s.Spec.Template.Spec.Containers[0].Args, podFiles(m.Data["weir.yaml"]))
	}
	wantKept(t, start(), start, "/gate/search?ip=192.0.2.1", http.Header{"Weir-Gate-Secret": {"the-secret-of-the-gates"}})
}

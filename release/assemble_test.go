package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aead.dev/minisign"
	"github.com/google/go-containerregistry/pkg/v1/layout"

	"github.com/weirlimit/weir/internal/testkit/must"
)

// smallDocs are files beside the program without the program.
func smallDocs() *docs {
	return &docs{
		texts:       map[string][]byte{"LICENSE": []byte("license\n"), "README.md": []byte("read\n"), "CHANGELOG.md": []byte("news\n"), noticesName: []byte("others\n")},
		completions: map[string][]byte{"bash": []byte("b\n"), "zsh": []byte("z\n"), "fish": []byte("f\n")},
		man:         map[string][]byte{"weir.1": []byte(".TH WEIR 1\n"), "weir-serve.1": []byte(".TH WEIR-SERVE 1\n")},
	}
}

// assemble writes all files of a release of a small program, signed with a key, into a new directory.
func assemble(t *testing.T, key signingKey) string {
	t.Helper()
	s := checkout(t)
	dir := filepath.Join(s.temp, "dist")
	must.Do(t, os.Mkdir(dir, 0o755))
	binary := filepath.Join(s.temp, "weir")
	must.Do(t, os.WriteFile(binary, []byte("#!/bin/sh\necho weir\n"), 0o755))
	deps := []dependency{
		{path: module, version: testVersion, licenses: []string{"Apache-2.0"}},
		{path: standardLibrary, version: "1.26.0", licenses: []string{"BSD-3-Clause"}, notices: "of Go\n"},
	}
	if bytes.Contains(notices(deps), []byte(testVersion)) || !bytes.Contains(notices(deps), []byte("of Go")) {
		t.Errorf("the licenses of others are\n%s", notices(deps))
	}
	linux := target{"linux", "amd64"}
	must.Do(t, writeArchive(s, linux, binary, smallDocs(), dir))
	must.Do(t, writeArchive(s, target{"windows", "amd64"}, binary, smallDocs(), dir))
	must.Do(t, writePackages(s, linux, binary, smallDocs(), dir))
	must.Do(t, writeImage(s, map[target]string{linux: binary}, smallDocs(), dir))
	must.Do(t, writeChart(s, dir))
	must.Do(t, writeBOM(s, deps, dir))
	must.Do(t, sign(s, key, dir))
	return dir
}

// digests returns the checksum of each file below a directory.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	must.Do(t, filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			data := readFile(t, file)
			sums[strings.TrimPrefix(file, dir)] = fmt.Sprintf("%x", sha256.Sum256(data))
		}
		return err
	}))
	return sums
}

// wantEqual compares two directories byte by byte.
func wantEqual(t *testing.T, a, b string) {
	t.Helper()
	first, second := digests(t, a), digests(t, b)
	if len(first) == 0 || len(first) != len(second) {
		t.Errorf("%d and %d files", len(first), len(second))
	}
	for name, sum := range first {
		if second[name] != sum {
			t.Errorf("%s differs", name)
		}
	}
}

// TestAssemble: two builds in two directories have equal bytes, and the files that they should.
func TestAssemble(t *testing.T) {
	key := newKey(t)
	key.throwAway = false
	a, b := assemble(t, key), assemble(t, key)
	wantEqual(t, a, b)
	wantFiles(t, "tar.gz", tarNames(t, gunzip(t, filepath.Join(a, "weir_0.1.0_linux_amd64.tar.gz"))),
		"weir", "LICENSE", "README.md", "CHANGELOG.md", noticesName, "completions/weir.bash", "completions/_weir", "completions/weir.fish", "man/man1/weir.1", "man/man1/weir-serve.1")
	archive, err := zip.OpenReader(filepath.Join(a, "weir_0.1.0_windows_amd64.zip"))
	must.Do(t, err)
	defer archive.Close()
	if name := archive.File[0].Name; name != "weir_0.1.0_windows_amd64/weir.exe" {
		t.Errorf("the first file for Windows is %s", name)
	}
	checkDeb(t, filepath.Join(a, "weir_0.1.0_amd64.deb"))
	rpm := readFile(t, filepath.Join(a, "weir-0.1.0-1.x86_64.rpm"))
	for _, word := range []string{"\xed\xab\xee\xdb", "weir-serve.yaml", "weir.service", "shadow-utils"} {
		if !bytes.Contains(rpm, []byte(word)) {
			t.Errorf("the rpm has no %q", word)
		}
	}
	checkImage(t, filepath.Join(a, "weir_0.1.0_oci"))
	wantFiles(t, "chart", tarNames(t, gunzip(t, filepath.Join(a, "weir-0.1.0.tgz"))),
		"weir/Chart.yaml", "weir/values.yaml", "weir/values.schema.json", "weir/templates/_helpers.tpl", "weir/templates/NOTES.txt")
	bom := readFile(t, filepath.Join(a, "weir_0.1.0.cdx.json"))
	if bytes.Contains(bom, []byte("timestamp")) || bytes.Contains(bom, []byte("serialNumber")) || !bytes.Contains(bom, []byte(`"pkg:golang/std@1.26.0"`)) {
		t.Errorf("the list of contents is\n%s", bom)
	}
	sums, signature := readFile(t, filepath.Join(a, sumsName)), readFile(t, filepath.Join(a, signatureName))
	public, err := minisign.PublicKeyFromFile(filepath.Join(a, publicName))
	must.Do(t, err)
	if !minisign.Verify(public, sums, signature) {
		t.Errorf("the signature is not of %s:\n%s", publicName, signature)
	}
	installer := readFile(t, filepath.Join(a, "install.sh"))
	if !bytes.Contains(installer, []byte("\npublic_key="+public.String()+"\n")) {
		t.Error("install.sh does not have the public key")
	}
	throwAway := assemble(t, newKey(t))
	if _, err := os.Stat(filepath.Join(throwAway, throwAwayName)); err != nil {
		t.Errorf("a throw-away key is not named so: %v", err)
	}
}

// TestLicenses: a dependency brings its texts, and one without a license is rejected.
func TestLicenses(t *testing.T) {
	dir := t.TempDir()
	d := dependency{path: "example.com/d", version: "v1.0.0"}
	must.Do(t, os.WriteFile(filepath.Join(dir, "PATENTS"), []byte("a grant\n"), 0o644))
	if err := d.readLicenses(dir); err == nil || !strings.Contains(err.Error(), "example.com/d v1.0.0 has no license that is known") {
		t.Errorf("without a license: %v", err)
	}
	d = dependency{}
	must.Do(t, os.WriteFile(filepath.Join(dir, "LICENSE"), readFile(t, "../LICENSE"), 0o644))
	must.Do(t, d.readLicenses(dir))
	if !slices.Equal(d.licenses, []string{"Apache-2.0"}) || !strings.HasSuffix(d.notices, "a grant\n") {
		t.Errorf("the licenses are %q, the texts end in %q", d.licenses, d.notices[len(d.notices)-20:])
	}
}

func gunzip(t *testing.T, file string) []byte {
	t.Helper()
	return unpacked(t, readFile(t, file))
}

func unpacked(t *testing.T, data []byte) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(data))
	must.Do(t, err)
	data, err = io.ReadAll(r)
	must.Do(t, err)
	return data
}

// tarNames returns the names of a tar archive below its common directory, with mode and owner.
func tarNames(t *testing.T, data []byte) map[string]string {
	t.Helper()
	found := map[string]string{}
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		must.Do(t, err)
		name := strings.TrimPrefix(strings.TrimPrefix(h.Name, "./"), "weir_0.1.0_linux_amd64/")
		found[name] = fmt.Sprintf("%o %d:%d", h.Mode, h.Uid, h.Gid)
	}
}

func wantFiles(t *testing.T, what string, found map[string]string, want ...string) {
	t.Helper()
	for _, name := range want {
		if !strings.HasSuffix(found[name], " 0:0") {
			t.Errorf("%s: %s is %q, want a file of root; there are %q", what, name, found[name], found)
		}
	}
}

// checkDeb reads the three members of a deb.
func checkDeb(t *testing.T, file string) {
	t.Helper()
	members := arMembers(t, readFile(t, file))
	control := unpacked(t, members["control.tar.gz"])
	wantFiles(t, "deb control", tarNames(t, control), "control", "conffiles", "postinst", "prerm", "postrm", "md5sums")
	for _, word := range []string{"Version: 0.1.0\n", "Architecture: amd64\n", "Depends: adduser\n", "/etc/weir/weir.yaml\n", "/etc/weir/weir-serve.yaml\n"} {
		if !bytes.Contains(control, []byte(word)) {
			t.Errorf("the control files of the deb have no %q", word)
		}
	}
	data := tarNames(t, unpacked(t, members["data.tar.gz"]))
	wantFiles(t, "deb", data, "usr/bin/weir", "usr/lib/systemd/system/weir.service", "usr/lib/systemd/system/weir.socket", "etc/weir/weir.yaml", "etc/weir/weir-serve.yaml",
		"usr/share/man/man1/weir-serve.1.gz", "usr/share/doc/weir/copyright", "usr/share/doc/weir/changelog.gz", "usr/share/bash-completion/completions/weir")
}

// arMembers reads an archive of ar: headers of 60 bytes, and data of even length.
func arMembers(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	members := map[string][]byte{}
	for data = data[len("!<arch>\n"):]; len(data) > 60; {
		name, length := strings.Trim(string(data[:16]), " /"), strings.TrimSpace(string(data[48:58]))
		n, err := strconv.Atoi(length)
		must.Do(t, err)
		members[name] = data[60 : 60+n]
		data = data[60+n+n%2:]
	}
	return members
}

// checkImage reads the layout of the image for one target.
func checkImage(t *testing.T, dir string) {
	t.Helper()
	index, err := layout.ImageIndexFromPath(dir)
	must.Do(t, err)
	manifest, err := index.IndexManifest()
	must.Do(t, err)
	if len(manifest.Manifests) != 1 || manifest.Manifests[0].Platform.String() != "linux/amd64" {
		t.Fatalf("the index has %+v", manifest.Manifests)
	}
	image, err := index.Image(manifest.Manifests[0].Digest)
	must.Do(t, err)
	config, err := image.ConfigFile()
	must.Do(t, err)
	c := config.Config
	if c.User != "65532:65532" || !slices.Equal(c.Entrypoint, []string{"/weir"}) || c.Cmd[0] != "serve" || c.StopSignal != "SIGTERM" || c.Healthcheck == nil {
		t.Errorf("the configuration is %+v", c)
	}
	layers, err := image.Layers()
	must.Do(t, err)
	layer, err := layers[0].Uncompressed()
	must.Do(t, err)
	defer layer.Close()
	data, err := io.ReadAll(layer)
	must.Do(t, err)
	wantFiles(t, "image", tarNames(t, data), "weir", "etc/ssl/certs/ca-certificates.crt", "licenses/LICENSE")
	if n := bytes.Count(roots(), []byte("BEGIN CERTIFICATE")); n < 100 {
		t.Errorf("the image trusts %d authorities, want 100 or more", n)
	}
}

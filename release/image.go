package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// writeImage writes the image of all Linux targets as an OCI layout, and that as a tar archive.
// deploy/Dockerfile has the same user, ports and command; the image takes them from there.
func writeImage(s *source, binaries map[target]string, d *docs, dir string) error {
	dockerfile, err := s.read("deploy/Dockerfile")
	if err != nil {
		return err
	}
	config, err := imageConfig(string(dockerfile))
	if err != nil {
		return err
	}
	config.Labels = map[string]string{
		"org.opencontainers.image.title":    "weir",
		"org.opencontainers.image.version":  s.number(),
		"org.opencontainers.image.revision": s.commit,
		"org.opencontainers.image.source":   "https://" + module,
		"org.opencontainers.image.licenses": "Apache-2.0",
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, t := range targets {
		if t.os != "linux" || binaries[t] == "" {
			continue
		}
		image, err := makeImage(s, t, binaries[t], d, config)
		if err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image,
			Descriptor: v1.Descriptor{
				Platform:    &v1.Platform{OS: t.os, Architecture: t.arch},
				Annotations: map[string]string{"org.opencontainers.image.ref.name": s.number()},
			},
		})
	}
	oci := filepath.Join(dir, s.name("_oci"))
	if _, err := layout.Write(oci, index); err != nil {
		return err
	}
	return tarLayout(s, oci)
}

// makeImage returns the image of a target: one layer on nothing.
func makeImage(s *source, t target, binary string, d *docs, config v1.Config) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = writeTar(&b, s.time, []entry{
		{"etc/", 0o755, nil},
		{"etc/ssl/", 0o755, nil},
		{"etc/ssl/certs/", 0o755, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		{"licenses/", 0o755, nil},
		{"licenses/LICENSE", 0o644, d.texts["LICENSE"]},
		{"licenses/" + noticesName, 0o644, d.texts[noticesName]},
		{"weir", 0o755, program},
	})
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	level := tarball.WithCompressionLevel(gzip.DefaultCompression)
	layer, err := tarball.LayerFromOpener(open, level, tarball.WithCompressedCaching, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	created := v1.Time{Time: s.time}
	history := v1.History{Created: created, CreatedBy: "weir " + s.version}
	if image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: history}); err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = t.os, t.arch
	file.Created, file.Config = created, config
	return mutate.ConfigFile(image, file)
}

// roots returns the authorities that Mozilla trusts, in PEM. Those that it trusts only in part are
// left out, because a file cannot say so.
func roots() []byte {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return b.Bytes()
}

var (
	instruction = regexp.MustCompile(`(?m)^(USER|EXPOSE|STOPSIGNAL|HEALTHCHECK|ENTRYPOINT|CMD) (.*)$`)
	healthForm  = regexp.MustCompile(`^--interval=(\S+) --timeout=(\S+) --start-period=(\S+) CMD (\[.*\])$`)
)

// imageConfig reads the last stage of the Dockerfile. Its lists are JSON, since there is no shell.
func imageConfig(dockerfile string) (v1.Config, error) {
	var c v1.Config
	_, stage, found := strings.Cut(strings.ReplaceAll(dockerfile, "\\\n", ""), "\nFROM scratch\n")
	if !found {
		return c, fmt.Errorf("deploy/Dockerfile has no stage FROM scratch")
	}
	for _, m := range instruction.FindAllStringSubmatch(stage, -1) {
		var err error
		switch word, value := m[1], m[2]; word {
		case "USER":
			c.User = value
		case "EXPOSE":
			c.ExposedPorts = map[string]struct{}{value + "/tcp": {}}
		case "STOPSIGNAL":
			c.StopSignal = value
		case "ENTRYPOINT":
			err = json.Unmarshal([]byte(value), &c.Entrypoint)
		case "CMD":
			err = json.Unmarshal([]byte(value), &c.Cmd)
		case "HEALTHCHECK":
			c.Healthcheck, err = healthCheck(value)
		}
		if err != nil {
			return c, fmt.Errorf("deploy/Dockerfile: %s: %w", m[0], err)
		}
	}
	return c, nil
}

func healthCheck(value string) (*v1.HealthConfig, error) {
	m := healthForm.FindStringSubmatch(value)
	if m == nil {
		return nil, fmt.Errorf("want --interval, --timeout, --start-period and CMD with a list")
	}
	var command []string
	if err := json.Unmarshal([]byte(m[4]), &command); err != nil {
		return nil, err
	}
	check := &v1.HealthConfig{Test: append([]string{"CMD"}, command...)}
	for i, field := range []*time.Duration{&check.Interval, &check.Timeout, &check.StartPeriod} {
		d, err := time.ParseDuration(m[i+1])
		if err != nil {
			return nil, err
		}
		*field = d
	}
	return check, nil
}

// tarLayout packs a layout into an archive beside it, which programs load as one file.
func tarLayout(s *source, oci string) error {
	var entries []entry
	err := filepath.WalkDir(oci, func(file string, e fs.DirEntry, err error) error {
		if err != nil || file == oci {
			return err
		}
		name, err := filepath.Rel(oci, file)
		if err != nil {
			return err
		}
		if e.IsDir() {
			entries = append(entries, entry{name: filepath.ToSlash(name) + "/", mode: 0o755})
			return nil
		}
		data, err := os.ReadFile(file)
		entries = append(entries, entry{filepath.ToSlash(name), 0o644, data})
		return err
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTar(&b, s.time, entries); err != nil {
		return err
	}
	return os.WriteFile(oci+".tar", b.Bytes(), 0o644)
}

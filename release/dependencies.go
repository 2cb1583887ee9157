package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
	modules "golang.org/x/mod/module"
)

// A dependency is a module in the program of at least one target, or the standard library of Go.
type dependency struct {
	path, version string
	sum           string   // checksum in go.sum; "" for the standard library
	licenses      []string // SPDX identifiers
	notices       string   // the texts of its licenses
}

// own reports whether the dependency is a module of weir.
func (d dependency) own() bool { return d.path == module || strings.HasPrefix(d.path, module+"/") }

// standardLibrary is the path of Go's standard library in lists of contents.
const standardLibrary = "std"

// readDependencies returns the modules that the programs themselves list, by path.
func readDependencies(s *source, binaries map[target]string) ([]dependency, error) {
	found := map[string]dependency{}
	for _, binary := range binaries {
		info, err := buildinfo.ReadFile(binary)
		if err != nil {
			return nil, err
		}
		if info.Main.Version != s.version {
			return nil, fmt.Errorf("%s has version %s, want %s", binary, info.Main.Version, s.version)
		}
		found[standardLibrary] = dependency{path: standardLibrary, version: strings.TrimPrefix(info.GoVersion, "go")}
		for _, m := range info.Deps {
			found[m.Path] = dependency{path: m.Path, version: m.Version, sum: m.Sum}
		}
	}
	var all []dependency
	for _, path := range slices.Sorted(maps.Keys(found)) {
		d := found[path]
		dir, err := s.moduleDir(d)
		if err != nil {
			return nil, err
		}
		if err := d.readLicenses(dir); err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	return all, nil
}

// moduleDir returns the directory of the sources of a dependency.
func (s *source) moduleDir(d dependency) (string, error) {
	if d.path == standardLibrary {
		return output(s.dir, nil, goCommand, "env", "GOROOT")
	}
	path, err := modules.EscapePath(d.path)
	if err != nil {
		return "", err
	}
	version, err := modules.EscapeVersion(d.version)
	return filepath.Join(s.moduleCache(), filepath.FromSlash(path)+"@"+version), err
}

// The names of files that must accompany a program. Those of licenseFile hold a license with an
// SPDX identifier.
var (
	noticeFile  = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)
	licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying)`)
)

// readLicenses sets licenses and notices. A dependency without a known license is an error,
// because it may not be distributed.
func (d *dependency) readLicenses(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() || !noticeFile.MatchString(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		d.notices += strings.TrimSpace(string(text)) + "\n"
		if licenseFile.MatchString(entry.Name()) {
			d.addLicenses(text)
		}
	}
	if len(d.licenses) == 0 {
		return fmt.Errorf("%s %s has no license that is known", d.path, d.version)
	}
	return nil
}

// addLicenses adds the licenses of a text that are not there yet.
func (d *dependency) addLicenses(text []byte) {
	for _, match := range licensecheck.Scan(text).Match {
		if !match.IsURL && !slices.Contains(d.licenses, match.ID) {
			d.licenses = append(d.licenses, match.ID)
		}
	}
}

// notices returns the licenses of all third-party code in the program.
func notices(deps []dependency) []byte {
	var b bytes.Buffer
	b.WriteString("The program weir contains code of others under the following licenses.\n")
	for _, d := range deps {
		if !d.own() {
			fmt.Fprintf(&b, "\n%s\n%s %s\n\n%s", strings.Repeat("=", 80), d.path, d.version, d.notices)
		}
	}
	return b.Bytes()
}

// writeBOM writes the dependencies as a CycloneDX document, without a clock or a random number.
func writeBOM(s *source, deps []dependency, dir string) error {
	main := component(dependency{path: modulePath("cmd/weir"), version: s.version, licenses: []string{"Apache-2.0"}})
	main.Type = cyclonedx.ComponentTypeApplication
	var components []cyclonedx.Component
	var refs []string
	for _, d := range deps {
		c := component(d)
		if d.sum != "" {
			sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(d.sum, "h1:"))
			if err != nil {
				return err
			}
			c.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
		}
		components, refs = append(components, c), append(refs, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var b bytes.Buffer
	err := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cyclonedx.SpecVersion1_6)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, s.name(".cdx.json")), b.Bytes(), 0o644)
}

// component describes a dependency, without its checksum.
func component(d dependency) cyclonedx.Component {
	var licenses cyclonedx.Licenses
	for _, id := range d.licenses {
		licenses = append(licenses, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	purl := "pkg:golang/" + d.path + "@" + d.version
	return cyclonedx.Component{
		BOMRef:     purl,
		Type:       cyclonedx.ComponentTypeLibrary,
		Name:       d.path,
		Version:    d.version,
		PackageURL: purl,
		Licenses:   &licenses,
	}
}

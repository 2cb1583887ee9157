package main

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const maintainer = "Weir maintainers <" + email + ">"

const description = `exact rolling-window rate limiter
Weir answers requests of other programs whether one more call is within a
limit, such as 10 per minute and user, over HTTP, the protocol of Redis and
that of Envoy. No window ever has more calls than the limit allows.`

// A packed file is one of a deb or rpm package.
type packedFile struct {
	name string // below /
	mode os.FileMode
	data []byte
	kind string // type in nfpm, such as a configuration file; "" for a plain file
	only string // the only packager that includes it; "" for all
}

// writePackages writes the deb and the rpm of a target.
func writePackages(s *source, t target, binary string, d *docs, dir string) error {
	for name, packager := range map[string]nfpm.Packager{"deb": deb.Default, "rpm": rpm.DefaultRPM} {
		info, err := packageInfo(s, t, binary, d, name)
		if err != nil {
			return err
		}
		var b bytes.Buffer
		file := packager.ConventionalFileName(info)
		if err := packager.Package(info, &b); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// packageInfo writes the files of a package into a directory, and describes the package.
func packageInfo(s *source, t target, binary string, d *docs, packager string) (*nfpm.Info, error) {
	info := nfpm.WithDefaults(&nfpm.Info{
		Name:            "weir",
		Arch:            t.arch,
		Platform:        "linux",
		Version:         s.number(),
		Section:         "net",
		Priority:        "optional",
		Maintainer:      maintainer,
		Description:     description,
		Homepage:        "https://" + module,
		License:         "Apache-2.0",
		DisableGlobbing: true,
		MTime:           s.time,
	})
	info.RPM.BuildHost = "weir"
	scripts := filepath.Join(s.dir, "release/packages", packager)
	if packager == "deb" {
		info.Depends = []string{"adduser"}
		info.Scripts = nfpm.Scripts{
			PostInstall: filepath.Join(scripts, "postinst"),
			PreRemove:   filepath.Join(scripts, "prerm"),
			PostRemove:  filepath.Join(scripts, "postrm"),
		}
	} else {
		info.Depends = []string{"shadow-utils"}
		info.Scripts = nfpm.Scripts{
			PreInstall:  filepath.Join(scripts, "preinstall"),
			PostInstall: filepath.Join(scripts, "postinstall"),
			PreRemove:   filepath.Join(scripts, "preremove"),
			PostRemove:  filepath.Join(scripts, "postremove"),
		}
		state := &files.Content{Destination: "/var/lib/weir", Type: files.TypeDir}
		state.FileInfo = &files.ContentFileInfo{Owner: "weir", Group: "weir", Mode: 0o700, MTime: s.time}
		info.Contents = append(info.Contents, state)
	}
	packed, err := packedFiles(s, binary, d)
	if err != nil {
		return nil, err
	}
	laid, err := layFiles(s, packager, packed)
	info.Contents = append(info.Contents, laid...)
	return info, err
}

// layFiles writes the files of a package into a directory, where nfpm reads them.
func layFiles(s *source, packager string, packed []packedFile) (files.Contents, error) {
	stage, err := os.MkdirTemp(s.temp, packager+"-")
	if err != nil {
		return nil, err
	}
	var all files.Contents
	for i, f := range packed {
		if f.only != "" && f.only != packager {
			continue
		}
		laid := filepath.Join(stage, fmt.Sprintf("%03d", i))
		if err := os.WriteFile(laid, f.data, 0o644); err != nil {
			return nil, err
		}
		info := &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: s.time}
		all = append(all, &files.Content{
			Source:      laid,
			Destination: f.name,
			Type:        f.kind,
			FileInfo:    info,
		})
	}
	return all, nil
}

// packedFiles returns the files of the packages of a target.
func packedFiles(s *source, binary string, d *docs) ([]packedFile, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	var text [5][]byte
	for i, name := range []string{
		"deploy/weir.service", "deploy/weir.socket", "examples/policies/web.yaml",
		"release/packages/weir-serve.yaml", "release/packages/lintian-overrides",
	} {
		if text[i], err = s.read(name); err != nil {
			return nil, err
		}
	}
	unit, err := packagedUnit(string(text[0]))
	if err != nil {
		return nil, fmt.Errorf("deploy/weir.service: %w", err)
	}
	changes, err := gzipped(debianChangelog(s))
	if err != nil {
		return nil, err
	}
	const doc = "/usr/share/doc/weir/"
	all := []packedFile{
		{name: "/usr/bin/weir", mode: 0o755, data: program},
		{name: "/usr/lib/systemd/system/weir.service", data: []byte(unit)},
		{name: "/usr/lib/systemd/system/weir.socket", data: text[1]},
		{name: "/etc/weir/weir.yaml", data: text[2], kind: files.TypeConfigNoReplace},
		{name: "/etc/weir/weir-serve.yaml", data: text[3], kind: files.TypeConfigNoReplace},
		{name: "/usr/share/bash-completion/completions/weir", data: d.completions["bash"]},
		{name: "/usr/share/zsh/vendor-completions/_weir", data: d.completions["zsh"], only: "deb"},
		{name: "/usr/share/zsh/site-functions/_weir", data: d.completions["zsh"], only: "rpm"},
		{name: "/usr/share/fish/vendor_completions.d/weir.fish", data: d.completions["fish"]},
		{name: doc + "README.md", data: d.texts["README.md"]},
		{name: doc + "copyright", data: []byte(copyright), only: "deb"},
		{name: doc + "changelog.gz", data: changes, only: "deb"},
		{name: doc + "CHANGELOG.md", data: d.texts["CHANGELOG.md"], only: "rpm"},
		{name: doc + noticesName, data: d.texts[noticesName]},
		{name: "/usr/share/licenses/weir/LICENSE", data: d.texts["LICENSE"], only: "rpm"},
		{name: "/usr/share/lintian/overrides/weir", data: text[4], only: "deb"},
	}
	for _, page := range sorted(d.man) {
		packed, err := gzipped(d.man[page])
		if err != nil {
			return nil, err
		}
		all = append(all, packedFile{name: path.Join("/usr/share/man/man1", page+".gz"), data: packed})
	}
	for i := range all {
		if all[i].mode == 0 {
			all[i].mode = 0o644
		}
	}
	return all, nil
}

// A packaged service differs from deploy/weir.service in these lines: its program, a user that
// stays, and settings in a file.
var unitLines = []struct{ prefix, line string }{
	{"ExecStart=", "ExecStart=/usr/bin/weir serve --config /etc/weir/weir-serve.yaml $WEIR_FLAGS"},
	{`Environment="WEIR_STORE=`, ""},
	{"DynamicUser=", "User=weir\nGroup=weir"},
}

const unitHeader = `# Weir as a service. /etc/weir/weir-serve.yaml has its settings, /etc/weir/weir.yaml its
# policies. /etc/default/weir has further flags, such as WEIR_FLAGS=--log-format json. Change
# this unit with systemctl edit weir.
`

// packagedUnit returns the unit of a package.
func packagedUnit(unit string) (string, error) {
	_, body, found := strings.Cut(unit, "\n[Unit]\n")
	if !found {
		return "", fmt.Errorf("it has no section [Unit]")
	}
	lines := strings.Split("[Unit]\n"+body, "\n")
	for _, change := range unitLines {
		changed := 0
		for i, line := range lines {
			if strings.HasPrefix(line, change.prefix) {
				lines[i] = change.line
				changed++
			}
		}
		if changed != 1 {
			return "", fmt.Errorf("it has %d lines %s…, want one", changed, change.prefix)
		}
	}
	return unitHeader + "\n" + strings.Join(lines, "\n"), nil
}

// debianChangelog returns the one entry that Debian's tools want.
func debianChangelog(s *source) []byte {
	const form = "weir (%s) unstable; urgency=medium\n\n" +
		"  * https://%s/blob/%s/CHANGELOG.md\n\n -- %s  %s\n"
	const date = "Mon, 02 Jan 2006 15:04:05 -0700"
	return fmt.Appendf(nil, form, s.number(), module, s.version, maintainer, s.time.Format(date))
}

// copyright is the file that Debian's packages have instead of LICENSE.
const copyright = `Weir, https://` + module + `

Copyright 2026 the authors of Weir
License: Apache-2.0

On Debian systems the full text of the Apache License 2.0 is in
/usr/share/common-licenses/Apache-2.0. The licenses of the modules in the
program are in /usr/share/doc/weir/` + noticesName + `.
`

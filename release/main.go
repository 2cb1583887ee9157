// Command release builds a release of weir from a commit: archives, packages, an image, a chart,
// a list of their contents, and the clients for Node and Python. The same commit, version and key
// give the same bytes, so a release can be repeated and compared.
//
//	release dist -version v0.1.0 [-key FILE] [-out dist]   build the files of the release
//	release tag -version v0.1.0                            make its commit and the tags of its modules
//
// goreleaser was the alternative. It needs a container engine for an image, and an option in each
// of its builds that leaves out the clock.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

const usage = "usage: release dist|tag -version v0.1.0 [flags]"

func run(w io.Writer, args []string) error {
	if len(args) == 0 {
		return errors.New(usage)
	}
	flags := flag.NewFlagSet("release "+args[0], flag.ContinueOnError)
	version := flags.String("version", "", "the version, such as v0.1.0")
	repo := flags.String("repo", ".", "the repository")
	out := flags.String("out", "dist", "the directory of the files")
	key := flags.String("key", "", "a file with the private key of minisign; its password is "+
		"$MINISIGN_PASSWORD; without it a throw-away key signs")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is one argument too many; %s", flags.Arg(0), usage)
	}
	switch args[0] {
	case "dist":
		return dist(w, *repo, *version, *key, *out)
	case "tag":
		return tag(w, *repo, *version)
	}
	return fmt.Errorf("%q is no command; %s", args[0], usage)
}

// dist writes all files of a release into the directory out, which it replaces as a whole.
func dist(w io.Writer, repo, version, keyFile, out string) error {
	key, err := readKey(keyFile)
	if err != nil {
		return err
	}
	if out, err = filepath.Abs(out); err != nil {
		return err
	}
	return inSource(repo, version, func(s *source) error {
		built := filepath.Join(s.temp, "dist")
		if err := buildAll(w, s, built); err != nil {
			return err
		}
		if err := sign(s, key, built); err != nil {
			return err
		}
		if err := errors.Join(os.RemoveAll(out), os.CopyFS(out, os.DirFS(built))); err != nil {
			return err
		}
		if key.throwAway {
			fmt.Fprintf(w, "signed with a throw-away key, %s; KEY=FILE names the key of a real release\n", throwAwayName)
		}
		fmt.Fprintf(w, "%s of commit %.12s is in %s\n", s.version, s.commit, out)
		return nil
	})
}

// buildAll writes all files of a release but checksums and signature into a new directory.
func buildAll(w io.Writer, s *source, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	binaries := map[target]string{}
	for _, t := range targets {
		fmt.Fprintln(w, "build", t)
		binary, err := s.build(t)
		if err != nil {
			return err
		}
		binaries[t] = binary
	}
	deps, err := readDependencies(s, binaries)
	if err != nil {
		return err
	}
	docs, err := makeDocs(s, binaries, deps)
	if err != nil {
		return err
	}
	for _, t := range targets {
		if err := writeArchive(s, t, binaries[t], docs, dir); err != nil {
			return fmt.Errorf("archive of %s: %w", t, err)
		}
		if t.os != "linux" {
			continue
		}
		if err := writePackages(s, t, binaries[t], docs, dir); err != nil {
			return fmt.Errorf("packages of %s: %w", t, err)
		}
	}
	if err := writeImage(s, binaries, docs, dir); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := writeChart(s, dir); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	if err := writeBOM(s, deps, dir); err != nil {
		return fmt.Errorf("list of contents: %w", err)
	}
	return writeClients(s, dir)
}

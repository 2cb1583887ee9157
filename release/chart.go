package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const chartDir = "deploy/helm/weir"

// writeChart packs the Helm chart, under the name that helm package gives it, with the version of
// the release: it is also that of the image.
func writeChart(s *source, dir string) error {
	var entries []entry
	root := filepath.Join(s.dir, chartDir)
	err := filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			if data, err = versionedChart(data, s.number()); err != nil {
				return err
			}
		}
		entries = append(entries, entry{path.Join("weir", filepath.ToSlash(name)), 0o644, data})
		return nil
	})
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := writeTarGz(&b, s.time, entries); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "weir-"+s.number()+".tgz"), b.Bytes(), 0o644)
}

// versionedChart writes a version into Chart.yaml.
func versionedChart(chart []byte, number string) ([]byte, error) {
	const unreleased = "ersion: 0.0.0\n"
	if n := strings.Count(string(chart), unreleased); n != 2 {
		return nil, fmt.Errorf("the chart's Chart.yaml has %d versions 0.0.0, want version and appVersion", n)
	}
	return bytes.ReplaceAll(chart, []byte(unreleased), []byte("ersion: "+number+"\n")), nil
}

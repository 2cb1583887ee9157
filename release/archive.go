package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"
)

// An entry is a file of an archive, or a directory if its name ends in a slash.
type entry struct {
	name string
	mode int64
	data []byte
}

// writeArchive writes the archive of a target: the program and its docs in one directory.
func writeArchive(s *source, t target, binary string, d *docs, dir string) error {
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	name := s.name("_" + t.os + "_" + t.arch)
	entries := []entry{{path.Join(name, t.executable()), 0o755, program}}
	files := d.files()
	for _, file := range sorted(files) {
		entries = append(entries, entry{path.Join(name, file), 0o644, files[file]})
	}
	var b bytes.Buffer
	suffix := ".tar.gz"
	if t.os == "windows" {
		suffix = ".zip"
		err = writeZip(&b, s.time, entries)
	} else {
		err = writeTarGz(&b, s.time, entries)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+suffix), b.Bytes(), 0o644)
}

// writeTarGz writes entries that belong to root, all of one time.
func writeTarGz(w io.Writer, at time.Time, entries []entry) error {
	packed := gzip.NewWriter(w) // the best level takes twice the time for 1 % less
	if err := writeTar(packed, at, entries); err != nil {
		return err
	}
	return packed.Close()
}

func writeTar(w io.Writer, at time.Time, entries []entry) error {
	archive := tar.NewWriter(w)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: at}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(e.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

func writeZip(w io.Writer, at time.Time, entries []entry) error {
	archive := zip.NewWriter(w)
	for _, e := range entries {
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at}
		header.SetMode(os.FileMode(e.mode))
		file, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := file.Write(e.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

// gzipped compresses a document as Debian requires: at the best level, without name and time.
func gzipped(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

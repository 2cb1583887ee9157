// Package txtar reads and writes archives of text files, in the format of
// golang.org/x/tools/txtar: a line "-- NAME --" begins each file.
package txtar

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// Archive is a comment and the files behind it.
type Archive struct {
	Comment []byte
	Files   []File
}

// File is a file of an archive.
type File struct {
	Name string
	Data []byte
}

var marker = regexp.MustCompile(`(?m)^-- (.*\S.*) --(?:\n|\z)`)

// Parse returns the archive in text.
func Parse(text []byte) *Archive {
	places := marker.FindAllSubmatchIndex(text, -1)
	end := func(i int) int {
		if i < len(places) {
			return places[i][0]
		}
		return len(text)
	}
	a := &Archive{Comment: text[:end(0)]}
	for i, at := range places {
		name := strings.TrimSpace(string(text[at[2]:at[3]]))
		a.Files = append(a.Files, File{name, text[at[1]:end(i+1)]})
	}
	return a
}

// Format returns the text of an archive. Each file ends with a line feed.
func Format(a *Archive) []byte {
	var b bytes.Buffer
	b.Write(endLine(a.Comment))
	for _, f := range a.Files {
		fmt.Fprintf(&b, "-- %s --\n%s", f.Name, endLine(f.Data))
	}
	return b.Bytes()
}

func endLine(text []byte) []byte {
	if len(text) == 0 || bytes.HasSuffix(text, []byte("\n")) {
		return text
	}
	return append(bytes.Clone(text), '\n')
}

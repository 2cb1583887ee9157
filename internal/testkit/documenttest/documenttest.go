// Package documenttest tests implementations of engine.Documents, all with the same cases.
package documenttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/engine"
)

// Run tests the documents that open returns, each time new ones. Instances of one store, of which
// open returns the second as well, share their documents; second is nil for a store of one process.
func Run(t *testing.T, open func(t *testing.T) (first, second engine.Documents)) {
	cases := []struct {
		name string
		run  func(*testing.T, *suite)
	}{
		{"compare and set", compareAndSet},
		{"changes since a version", changesSince},
		{"more changes than are remembered", manyChanges},
		{"time to live", timeToLive},
		{"names and texts", namesAndTexts},
		{"collections", collections},
		{"concurrent writers", concurrentWriters},
		{"bad input", badInput},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			first, second := open(t)
			if second == nil {
				second = first
			}
			c.run(t, &suite{T: t, first: first, second: second})
		})
	}
}

// of is the collection of most cases.
const of = "notes"

// suite writes by the first instance and reads by the second.
type suite struct {
	*testing.T
	first, second engine.Documents
}

// write writes a document and returns its version.
func (s *suite) write(name, text string, over int64) int64 {
	s.Helper()
	d, err := s.first.Write(context.Background(), of,
		engine.Document{Name: name, Text: text, Version: over})
	if err != nil || d.Name != name || d.Text != text {
		s.Fatalf("writing %q %q over %d: got %+v, %v", name, text, over, d, err)
	}
	return d.Version
}

// read returns the changes since a version.
func (s *suite) read(since int64) engine.Changes {
	s.Helper()
	changes, err := s.second.Read(context.Background(), of, since)
	if err != nil {
		s.Fatalf("reading since %d: %v", since, err)
	}
	slices.SortFunc(changes.Documents,
		func(a, b engine.Document) int { return cmp.Compare(a.Name, b.Name) })
	return changes
}

// wantChanges compares changes since a version with "name=text" in the order of the names, and
// returns the new version.
func (s *suite) wantChanges(since int64, whole bool, want ...string) int64 {
	s.Helper()
	changes := s.read(since)
	var got []string
	for _, d := range changes.Documents {
		got = append(got, d.Name+"="+d.Text)
	}
	if changes.Whole != whole || !slices.Equal(got, want) {
		s.Fatalf("changes since %d: got %q, whole %v; want %q, whole %v",
			since, got, changes.Whole, want, whole)
	}
	return changes.Version
}

func compareAndSet(t *testing.T, s *suite) {
	s.wantChanges(0, false)
	first := s.write("a", "1", 0)
	second := s.write("a", "2", first)
	if first <= 0 || second <= first {
		t.Fatalf("versions %d and %d; want them to grow", first, second)
	}
	for _, over := range []int64{0, first, second + 1} {
		d, err := s.first.Write(context.Background(), of,
			engine.Document{Name: "a", Text: "3", Version: over})
		if !errors.Is(err, engine.ErrConflict) || d.Text != "2" || d.Version != second {
			t.Fatalf("over %d: got %+v, %v; want ErrConflict and the present one", over, d, err)
		}
	}
	third := s.write("a", "3", engine.AnyVersion)
	s.wantChanges(0, true, "a=3")
	s.write("a", "", third)
	s.write("a", "", engine.AnyVersion) // there is nothing to delete, which is no error
	s.wantChanges(0, true)
	if v := s.write("a", "4", 0); v <= third {
		t.Errorf("after a deletion the version is %d, not above %d", v, third)
	}
}

func changesSince(_ *testing.T, s *suite) {
	s.write("a", "1", 0)
	seen := s.wantChanges(0, true, "a=1")
	s.wantChanges(seen, false)
	s.write("b", "1", 0)
	s.write("c", "1", 0)
	s.write("a", "2", engine.AnyVersion)
	s.write("c", "2", engine.AnyVersion)
	next := s.wantChanges(seen, false, "a=2", "b=1", "c=2")
	s.write("b", "", engine.AnyVersion)
	s.wantChanges(next, false, "b=")
	last := s.wantChanges(seen, false, "a=2", "b=", "c=2")
	s.wantChanges(last+1, true, "a=2", "c=2") // no version of this collection
}

func manyChanges(t *testing.T, s *suite) {
	s.write("first", "1", 0)
	seen := s.wantChanges(0, true, "first=1")
	const n = 700
	for i := range n {
		s.write(fmt.Sprintf("name %03d", i), strings.Repeat("x", 100), 0)
	}
	s.write("first", "", engine.AnyVersion)
	changes := s.read(seen)
	if !changes.Whole || len(changes.Documents) != n {
		t.Errorf("got %d documents, whole %v; want %d, all", len(changes.Documents), changes.Whole, n)
	}
	s.write("last", "1", 0)
	s.wantChanges(changes.Version, false, "last=1")
}

func timeToLive(t *testing.T, s *suite) {
	_, err := s.first.Write(context.Background(), of,
		engine.Document{Name: "short", Text: "1", TTL: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.first.Write(context.Background(), of,
		engine.Document{Name: "long", Text: "1", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(s.read(0).Documents) > 1; {
		if time.Now().After(end) {
			t.Fatal("the document is there ten seconds after its end")
		}
	}
	s.wantChanges(0, true, "long=1")
	s.write("short", "2", 0) // as if it had never been there
	s.wantChanges(0, true, "long=1", "short=2")
}

func namesAndTexts(_ *testing.T, s *suite) {
	var want []string
	names := []string{"!", "#", "0", "a b", "c1", "d:\x00", "ü\n", "名" + strings.Repeat("n", 2000)}
	for _, name := range names {
		text := "12:" + name + "\r\n 1 2 3 \x00" + strings.Repeat("é", 3000)
		s.write(name, text, 0)
		want = append(want, name+"="+text)
	}
	s.wantChanges(0, true, want...)
}

func collections(t *testing.T, s *suite) {
	s.write("a", "1", 0)
	_, err := s.first.Write(context.Background(), "other",
		engine.Document{Name: "a", Text: "2"})
	if err != nil {
		t.Fatal(err)
	}
	s.wantChanges(0, true, "a=1")
}

// concurrentWriters has writers count in one document: no count is lost.
func concurrentWriters(t *testing.T, s *suite) {
	const writers, each = 4, 25
	var all sync.WaitGroup
	for _, to := range []engine.Documents{s.first, s.second, s.first, s.second} {
		all.Go(func() {
			for range each {
				if err := increment(to); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	s.wantChanges(0, true, "n="+strings.Repeat("|", writers*each))
}

// increment adds a stroke to the document n.
func increment(to engine.Documents) error {
	present := engine.Document{}
	for {
		next := engine.Document{Name: "n", Text: present.Text + "|", Version: present.Version}
		d, err := to.Write(context.Background(), of, next)
		if !errors.Is(err, engine.ErrConflict) {
			return err
		}
		present = d
	}
}

func badInput(t *testing.T, s *suite) {
	for _, d := range []engine.Document{
		{Text: "no name"},
		{Name: "a\xff", Text: "x"},
		{Name: "a", Text: "\xff"},
		{Name: "a", Text: "x", Version: -2},
		{Name: "a", Text: "x", TTL: -1},
		{Name: "a", Text: strings.Repeat("x", engine.MaxDocumentBytes)},
	} {
		if _, err := s.first.Write(context.Background(), of, d); !errors.Is(err, engine.ErrInput) {
			t.Errorf("%.40q: got %v, want ErrInput", d.Name, err)
		}
	}
	s.wantChanges(0, false)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	s.first.Read(ended, of, 0) // may fail, and returns
}

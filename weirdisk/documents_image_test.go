package weirdisk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/engine"
	"github.com/weirlimit/weir/internal/testkit/must"
	"github.com/weirlimit/weir/internal/testkit/needs"
)

// noteChange is a change of a document on a tape.
type noteChange struct {
	begin, end int   // steps
	after      notes // the documents, if the change was made
	err        error
}

type notes map[string]string

func (n notes) String() string {
	var all []string
	for name, text := range n {
		all = append(all, name+"="+text+" ")
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// changeNotes makes changes of documents on an engine whose files are on the tape.
func (t *tape) changeNotes(e *Engine, present notes, r *rand.Rand) (all []noteChange) {
	for i := range 30 {
		d := engine.Document{Name: fmt.Sprint(r.IntN(3)), Version: engine.AnyVersion}
		if r.IntN(3) > 0 {
			d.Text = strings.Repeat(fmt.Sprint(i%10), 1+r.IntN(1500))
		}
		if r.IntN(10) == 0 { // so that the file is replaced
			d.Text = strings.Repeat("x", spareDocuments/2)
		}
		a := noteChange{begin: t.now(), after: maps.Clone(present)}
		if a.after[d.Name] = d.Text; d.Text == "" {
			delete(a.after, d.Name)
		}
		_, a.err = e.Documents().Write(context.Background(), "notes", d)
		a.end = t.now()
		if a.err == nil {
			present = a.after
		}
		all = append(all, a)
	}
	return all
}

// possibleNotes returns the documents that a crash before a step may leave.
func possibleNotes(all []noteChange, crash int) []string {
	states := []string{""}
	for _, a := range all {
		switch {
		case a.begin >= crash:
			return states
		case a.end > crash, errors.Is(a.err, engine.ErrOutcomeUnknown):
			states = append(states, a.after.String())
		case a.err == nil:
			states = []string{a.after.String()}
		}
	}
	return states
}

// TestImagesOfDocuments: a power failure at any instant loses unsynced writes, in any order and in
// parts. The next start has each acknowledged change, and no part of another. In half of the images
// writes and syncs have failed before, and in half the process was killed before.
func TestImagesOfDocuments(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	failures, torn := 0, 0
	for done := range 16 {
		x, dir := new(tape), t.TempDir()
		var all []noteChange
		for life := range 1 + done/2%2 {
			if life > 0 {
				dir = filepath.Join(t.TempDir(), "next")
				crash := r.IntN(len(x.steps) + 1)
				must.Do(t, x.kill(dir, crash))
				all = slices.DeleteFunc(all, func(a noteChange) bool { return a.begin >= crash })
				for i := range all {
					if all[i].end > crash {
						all[i].end = math.MaxInt // never answered
					}
				}
			}
			on := x.under(neverSynced)
			if done%2 == 0 {
				on = x.flaky(rand.New(rand.NewPCG(r.Uint64(), 0)), &failures)
			}
			e, err := openEngine(dir, "always", on)
			if err != nil {
				break // a failure
			}
			present := notes{}
			changes, err := e.Documents().Read(context.Background(), "notes", 0)
			must.Do(t, err)
			for _, d := range changes.Documents {
				present[d.Name] = d.Text
			}
			// What a start has read is durable.
			all = append(all, noteChange{begin: x.now(), end: x.now(), after: present})
			all = append(all, x.changeNotes(e, present, r)...)
			if err := e.Close(); err != nil && done%2 == 1 {
				t.Error(err)
			}
		}
		for range 25 {
			crash, damage := r.IntN(len(x.steps)+1), damage(r.IntN(int(damages)))
			image := filepath.Join(t.TempDir(), "image")
			must.Do(t, x.image(image, crash, damage, r))
			want := possibleNotes(all, crash)
			e, err := Open(image, light)
			if err != nil {
				t.Fatalf("seed %d, tape %d, crash before step %d, damage %d: %v", seed, done, crash, damage, err)
			}
			if got := texts(t, e); !slices.Contains(want, got) {
				t.Fatalf("seed %d, tape %d, crash before step %d, damage %d: got %.90q, want one of %.90q", seed, done, crash, damage, got, want)
			}
			if strings.Contains(e.Recovery().String(), documentsName) {
				torn++
			}
			must.Do(t, e.Close())
			must.Do(t, os.RemoveAll(image))
		}
	}
	t.Logf("seed %d: %d operations failed, %d documents were torn", seed, failures, torn)
	if failures == 0 || torn == 0 {
		t.Error("want some of each")
	}
}

package window

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/testkit/assert"
	"github.com/weirlimit/weir/internal/testkit/race"
)

// counted is a budget that counts bytes, and has no room for more while it is full.
type counted struct {
	bytes int
	full  bool
}

func (c *counted) TakeAbove(_ int64, n int) bool {
	if c.full {
		return false
	}
	c.bytes += n
	return true
}

func (c *counted) Give(n int) { c.bytes -= n }

// sharedBytes are the bytes of a page that runs share.
var sharedBytes = pageBytes(pageWords)

// filledRun is a run, and the number with which its words begin.
type filledRun struct {
	run   Run
	words int // as they were requested
	first uint32
}

func (f *filledRun) fill(a *Arena) {
	w := a.Words(f.run)
	for i := range w {
		w[i] = f.first + uint32(i)
	}
}

func (f *filledRun) check(t *testing.T, a *Arena) {
	t.Helper()
	w := a.Words(f.run)
	if len(w) < f.words || len(w) != f.run.words() {
		t.Fatalf("run %x has %d words, want %d or more", f.run, len(w), f.words)
	}
	for i, got := range w {
		if want := f.first + uint32(i); got != want {
			t.Fatalf("word %d of %d in run %x is %d, want %d", i, len(w), f.run, got, want)
		}
	}
}

// TestArenaRunsKeepTheirWords: runs of all classes come and go. Each keeps its words, which no
// other run shares. All bytes are given back, and a full budget changes nothing.
func TestArenaRunsKeepTheirWords(t *testing.T) {
	for seed := range uint64(race.Fewer(60)) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := &counted{}
		a := Arena{Budget: b}
		var runs []filledRun
		next := uint32(1)
		free := func(i int) {
			runs[i].check(t, &a)
			a.Free(runs[i].run)
			runs[i] = runs[len(runs)-1]
			runs = runs[:len(runs)-1]
		}
		refused, classes := 0, map[Run]bool{}
		for range 6 {
			growing := 2 + r.IntN(7) // steps of 10 that allocate
			for range 600 {
				if r.IntN(10) >= growing && len(runs) > 0 {
					free(r.IntN(len(runs)))
					continue
				}
				words := 1 + r.IntN(1<<(1+r.IntN(12)))
				b.full = r.IntN(8) == 0
				before := b.bytes
				run, ok := a.Alloc(words)
				b.full = false
				if !ok {
					if refused++; b.bytes != before || run != 0 && run>>placeBits == 0 {
						t.Fatalf("seed %d: a refused run is %x, and %d bytes are taken", seed, run, b.bytes-before)
					}
					continue
				}
				f := filledRun{run, words, next}
				next += uint32(f.run.words())
				classes[run>>placeBits] = true
				f.fill(&a)
				runs = append(runs, f)
			}
			for i := range runs {
				runs[i].check(t, &a)
			}
			held := 0
			for _, page := range (*a.pages.Load())[1:] {
				if page != nil {
					held += pageBytes(len(page))
				}
			}
			if held != b.bytes {
				t.Fatalf("seed %d: %d bytes are counted, the pages have %d", seed, b.bytes, held)
			}
		}
		for len(runs) > 0 {
			free(r.IntN(len(runs)))
		}
		if b.bytes > sharedBytes {
			t.Fatalf("seed %d: %d bytes are taken without a run, at most %d are kept", seed, b.bytes, sharedBytes)
		}
		if a.Release(); b.bytes != 0 {
			t.Fatalf("seed %d: %d bytes are left", seed, b.bytes)
		}
		if refused == 0 || len(classes) < pagedClasses+3 {
			t.Errorf("seed %d: %d runs are refused, %d classes are used", seed, refused, len(classes))
		}
		run, ok := a.Alloc(5) // a released arena can be used again
		if f := (filledRun{run, 5, 1}); ok {
			f.fill(&a)
			f.check(t, &a)
		} else {
			t.Fatal("a released arena has no room")
		}
	}
}

// TestArenaClassesAreTight: a run is less than half as large again as requested.
func TestArenaClassesAreTight(t *testing.T) {
	for n := 1; n < 1<<20; n += 1 + n/100 {
		got := classUnits(classFor(n)) * unitWords
		if got < n || n > unitWords && 2*got > 3*n+2*unitWords {
			t.Fatalf("%d words take a run of %d", n, got)
		}
	}
}

// TestArenaPagesChangeTheirClass: a page without runs serves another class, and the page of a
// large run is given back immediately.
func TestArenaPagesChangeTheirClass(t *testing.T) {
	b := &counted{}
	a := Arena{Budget: b}
	alloc := func(words int) Run {
		t.Helper()
		run, ok := a.Alloc(words)
		if !ok {
			t.Fatalf("no room for %d words", words)
		}
		return run
	}
	for class := range pagedClasses {
		words := classUnits(class) * unitWords
		var runs []Run
		for range pageWords / words {
			runs = append(runs, alloc(words))
		}
		assert.Equal(t, b.bytes, sharedBytes, "bytes of %d runs of %d words", len(runs), words)
		more := alloc(words)
		assert.Equal(t, b.bytes, 2*sharedBytes, "bytes with one run more")
		a.Free(more)
		for _, run := range runs {
			a.Free(run)
		}
		assert.Equal(t, b.bytes, sharedBytes, "bytes that are kept")
	}
	for _, words := range []int{pageWords/4 + 1, pageWords, pageWords + 1, 100_000} {
		a.Free(alloc(words))
		assert.Equal(t, b.bytes, sharedBytes, "bytes that are kept after a run of %d words", words)
	}
	if n := len(*a.pages.Load()); n > 4 {
		t.Errorf("numbers of freed pages are not used again: there are %d", n)
	}
	a.Free(0)
}

// TestArenaHasAnEnd: an arena without a free number of a page has no room, until it frees one.
func TestArenaHasAnEnd(t *testing.T) {
	b := &counted{}
	a := Arena{Budget: b}
	run, _ := a.Alloc(pageWords)
	pages := append(*a.pages.Load(), make([][]uint32, maxPages-2)...)
	a.pages.Store(&pages)
	a.states = make([]pageState, len(pages))
	for _, words := range []int{1, pageWords} {
		if _, ok := a.Alloc(words); ok || b.bytes != sharedBytes {
			t.Errorf("there is room for %d words in a full arena, %d bytes are taken", words, b.bytes)
		}
	}
	a.Free(run)
	if again, ok := a.Alloc(1); !ok || again&placeMask != run&placeMask {
		t.Errorf("got run %x, %t; want one in the page that was freed", again, ok)
	}
	last := Run(pagedClasses<<placeBits) | Run((maxPages-1)*pageUnits)
	pages[maxPages-1] = make([]uint32, last.words())
	if got := a.Words(last); &got[0] != &pages[maxPages-1][0] {
		t.Error("the words of the last page are others")
	}
}

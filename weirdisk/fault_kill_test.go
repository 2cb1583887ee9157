package weirdisk

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/testkit/needs"
)

// kills is the number of kills of TestKills.
var kills = flag.Int("weirdisk.kills", 30, "the `number` of kills; make kills makes 1,000")

// TestKills: 64 callers decide, and the process is killed at a random instant, also while
// it starts. No window holds more than Max acknowledged grants over all lives, and no
// acknowledged change is missing, in any mode: a kill loses no write that the operating
// system has.
func TestKills(t *testing.T) {
	needs.Time(t)
	t.Parallel()
	l, seed := killed(t, *kills, childConfig{Dir: t.TempDir()})
	for _, problem := range l.problems {
		t.Error(problem)
	}
	t.Logf("seed %d: %d kills, %d acknowledged operations", seed, l.lives, l.acked)
	if l.acked < *kills*enoughAcked {
		t.Errorf("%d acknowledged operations in %d lives are too few to test anything", l.acked, l.lives)
	}
}

// TestKillsFindAWrongEngine: the audit of TestKills finds an engine that answers before it
// writes. It ends with the first problem; on a busy machine many lives end before an answer.
func TestKillsFindAWrongEngine(t *testing.T) {
	l, seed := killed(t, 100, childConfig{Dir: t.TempDir(), AnswerFirst: true})
	if len(l.problems) == 0 {
		t.Fatalf("seed %d: %d kills and %d acknowledged operations without a problem", seed, l.lives, l.acked)
	}
	t.Logf("found: %s", l.problems[0])
}

// enoughAcked is the number of acknowledged operations a kill that test something.
const enoughAcked = 10

// killed adds up the lives of a directory. The last life only reads the state. On a busy
// machine many lives end before an answer. Then there are up to ten times as many of them.
func killed(t *testing.T, kills int, c childConfig) (l *ledger, seed uint64) {
	t.Helper()
	seed = rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	l = newLedger()
	for i := 0; ; i++ {
		last := i >= kills && l.acked >= enoughAcked*kills || i >= 10*kills
		c.Mode = []string{"100ms", "always"}[i%2]
		c.Once = l.once()
		span := time.Duration(r.Int64N(int64(100 * time.Millisecond)))
		if i%16 == 15 {
			span += time.Second // for a whole snapshot; otherwise each life begins with a longer log
		}
		// Every fourth life may end while it opens. The last one must not: it writes the state.
		events, err := life(t, c, span, i%4 > 0 || last)
		l.lives++
		for i := range events {
			l.add(&events[i], true)
		}
		if err != nil {
			l.errorf("%v", err)
		}
		if len(l.problems) > 0 || last {
			break
		}
	}
	l.audit()
	return l, seed
}

package reserve

import (
	"encoding/base64"
	"reflect"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/settle"
	"github.com/weirlimit/weir/internal/testkit/must"
)

// TestSealedTokensOpenUnchanged: a token opens to its content for any bytes in the key,
// and no two tokens are equal.
func TestSealedTokensOpenUnchanged(t *testing.T) {
	s := must.Get(newSeal("a secret"))(t)
	want := reservation{store: "identity", policy: "p", planBy: "b", held: true, ttl: 400 * 24 * time.Hour,
		Grant: settle.Grant{Units: 1<<53 - 1, At: 1<<53 - 1, Hold: 1<<53 - 1, Degraded: true},
		pairs: enforce.Pairs{{Name: "a"}, {Name: "b", Value: "\x00\xff=&\n"}, {Value: "x"}}}
	first, second := s.token(&want), s.token(&want)
	if first == second {
		t.Error("two reservations have one id")
	}
	got := must.Get(s.open(first))(t)
	if !reflect.DeepEqual(*got, want) {
		t.Errorf("opened %+v, want %+v", *got, want)
	}
	want.mark, want.span = "of an operation", time.Hour
	if got, err := s.open(s.token(&want)); err != nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("of an operation: opened %+v, %v, want %+v", got, err, want)
	}
	want.Hold = 5
	next := want.extended()
	want.Hold = 6
	if got, err := s.open(s.token(next)); err != nil || !reflect.DeepEqual(got, next) || got.Hold != 5 || got.mark == want.mark || got.mark != want.extended().mark {
		t.Errorf("extended: opened %+v, %v, want %+v", *got, err, *next)
	}
	same, _ := newSeal("a secret")
	must.Get(same.open(first))(t) // another server with the secret
	other, _ := newSeal("another secret")
	if _, err := other.open(first); err != errNoReservation {
		t.Errorf("another secret: %v", err)
	}
	for _, changed := range []string{first + "\n", first + "\r\n", "\n" + first, first[:8] + "\n" + first[8:]} {
		if _, err := s.open(changed); err != errNoReservation {
			t.Errorf("%q with a line ending: %v", changed, err)
		}
	}
	own, _ := newSeal("")
	if _, err := own.open(first); err != errNoReservation {
		t.Errorf("a secret of its own: %v", err)
	}
}

// FuzzUnseal opens tokens with any content, as of another version: each is read or
// rejected without panic.
func FuzzUnseal(f *testing.F) {
	s := must.Get(newSeal("a secret"))(f)
	f.Add([]byte{})
	f.Add([]byte{0, 1, 2, 0, 3, 0, 1, 'm', 1, 's', 1, 'p', 0, 1, 'a', 1, 'b'})
	f.Add([]byte{3, 1, 2, 4, 3, 5, 1, 'm', 1, 's', 1, 'p', 1, 'a'})
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, plain []byte) {
		id := base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, plain, nil))
		r, err := s.open(id)
		if err != nil {
			if err != errNoReservation || r != nil {
				t.Errorf("%q: %v, %v", plain, r, err)
			}
			return
		}
		if again, err := s.open(s.token(r)); err != nil || again.policy != r.policy || again.Units != r.Units || len(again.pairs) != len(r.pairs) {
			t.Errorf("%q: %+v, and sealed again %+v, %v", plain, r, again, err)
		}
	})
}

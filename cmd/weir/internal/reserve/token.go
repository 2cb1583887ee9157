package reserve

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/cmd/weir/internal/calls"
	"github.com/weirlimit/weir/internal/enforce"
	"github.com/weirlimit/weir/internal/keyenc"
	"github.com/weirlimit/weir/internal/settle"
)

// reservation is the content of a token.
type reservation struct {
	settle.Grant        // Units, At, Hold and Degraded; Service.open sets the others
	store        string // the identity of its store; "" = unknown, only of a degraded one
	policy       string
	pairs        enforce.Pairs // the key
	planBy       string        // the name in pairs of the value that chose a plan, unless it is also a dimension; "" = none
	held         bool          // it began with a hold: the policy had a concurrency limit
	ttl          time.Duration // from Hold on, whole microseconds
	own          time.Duration // the ttl of the token; ttl is longer if the policy in force holds for longer
	mark         string        // its name among claims, of markBytes
	span         time.Duration // how long the claims of an operation or extension are kept, for every token of it; otherwise 0

	target enforce.Target // by the policies in force; Service.open sets it
	calls  *calls.Rule    // and this one
}

// seal makes tokens and opens them.
type seal struct {
	aead cipher.AEAD // puts a random nonce in front
}

// newSeal returns the seal of a secret; "" stands for a random one.
func newSeal(secret string) (*seal, error) {
	if secret == "" {
		secret = rand.Text()
	}
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "weir reservations", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return &seal{aead}, err
}

// The first number of a token.
const degradedFlag, heldFlag = 1, 2

// token seals r. Every call returns another token, by its nonce.
func (s *seal) token(r *reservation) string {
	b := []byte{0}
	if r.Degraded {
		b[0] |= degradedFlag
	}
	if r.held {
		b[0] |= heldFlag
	}
	for _, n := range []int64{r.Units, r.At, r.Hold - r.At, r.ttl.Microseconds(), r.span.Microseconds()} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	for _, text := range []string{r.mark, r.store, r.policy, r.planBy} {
		b = keyenc.Append(b, text)
	}
	for _, p := range r.pairs {
		b = keyenc.Append(keyenc.Append(b, p.Name), p.Value)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b, nil))
}

// errNoReservation rejects a token that no server with this secret made.
var errNoReservation error = &calls.Problem{Err: calls.ErrMissing, Detail: "there is no such reservation: its id was changed on the way, or made by a server with another secret or before a restart; give all servers one --reservation-secret-file"}

// markBytes is the length of a mark: 96 bits, so that no two are equal.
const markBytes = 12

// markOf returns the mark of a grant. Of an operation with an idempotency key, a retry after a
// lost answer has another token but the same mark, so one of the tokens is settled.
func markOf(policy string, key *weir.Key, id string, at int64) string {
	b := keyenc.Append(nil, policy)
	for i := range key.Len() {
		b = keyenc.Append(b, key.Value(i))
	}
	sum := sha256.Sum256(strconv.AppendInt(keyenc.Append(b, id), at, 10))
	return string(sum[:markBytes])
}

// extended returns the reservation after its extension, which has moved Hold. Its mark follows
// from the mark before, so that retries of the extension return the same reservation.
func (r *reservation) extended() *reservation {
	next := *r
	next.span = r.claimTTL()
	sum := sha256.Sum256([]byte("extended " + r.mark))
	next.mark = string(sum[:markBytes])
	return &next
}

// open returns the reservation of a token.
func (s *seal) open(token string) (*reservation, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || strings.ContainsAny(token, "\r\n") { // the decoder skips line endings
		return nil, errNoReservation
	}
	b, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, errNoReservation
	}
	u := unsealer{rest: b}
	flags := u.number()
	r := &reservation{held: flags&heldFlag != 0, Grant: settle.Grant{Degraded: flags&degradedFlag != 0, Units: u.number(), At: u.number()}}
	r.Hold, r.ttl, r.span = r.At+u.number(), time.Duration(u.number())*time.Microsecond, time.Duration(u.number())*time.Microsecond
	r.mark, r.store, r.policy, r.planBy = u.text(), u.text(), u.text(), u.text()
	for len(u.rest) > 0 && !u.short {
		r.pairs = append(r.pairs, enforce.Pair{Name: u.text(), Value: u.text()})
	}
	if u.short {
		return nil, errNoReservation // sealed by another version
	}
	return r, nil
}

// unsealer reads the fields of a sealed reservation.
type unsealer struct {
	rest  []byte
	short bool // a field was missing
}

func (u *unsealer) number() int64 {
	n, size := binary.Uvarint(u.rest)
	u.short, u.rest = u.short || size <= 0, u.rest[max(size, 0):]
	return int64(n)
}

func (u *unsealer) text() string {
	value, rest, ok := keyenc.Next(u.rest)
	u.short, u.rest = u.short || !ok, rest
	return string(value)
}

// expired reports whether the reservation has expired at an instant of the engine's
// clock.
func (r *reservation) expired(at time.Time) bool {
	return at.UnixMicro() >= r.Hold+r.ttl.Microseconds()
}

// claimTTL returns the least time for which a claim must be kept.
func (r *reservation) claimTTL() time.Duration { return max(r.span, r.ttl) }

// claimKey returns the key of the reservation's claims.
func (r *reservation) claimKey() weir.Key { return weir.K(r.mark) }

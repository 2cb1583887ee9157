package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"time"

	"github.com/weirlimit/weir"
	"github.com/weirlimit/weir/internal/keyenc"
)

// reservation is a grant that is to be settled. All of it is in its id, sealed with
// the servers' secret: nothing is kept here, every server with the secret can settle
// it, and nobody can make one up.
type reservation struct {
	store    string // the identity of its store; "" = none, which only a degraded one has
	policy   string
	key      []pair
	units    int64
	at       int64         // the instant of the grant, microseconds since 1970
	ttl      time.Duration // from then on, whole microseconds
	degraded bool          // granted by a fallback, which the store knows nothing of
	mark     string        // a name of its own: random, or of the operation it is of
	span     time.Duration // with an operation, how long its claims are told apart, whatever ttl each id of it has; else 0
}

// seal makes ids of reservations and reads them.
type seal struct {
	aead cipher.AEAD // its nonces are random and stand in front
}

// The first byte of what is sealed.
const (
	reservationVersion = 3 // 1 and 2 held no store
	operationVersion   = 4 // holds span and mark as well
)

// newSeal returns the seal of a secret; "" is one of this process's own.
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

// id seals r. The random nonce in front makes every id another.
func (s *seal) id(r *reservation) string {
	b := []byte{reservationVersion, 0}
	if r.span > 0 {
		b[0] = operationVersion
	}
	if r.degraded {
		b[1] = 1
	}
	for _, n := range []int64{r.units, r.at, r.ttl.Microseconds()} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	if r.span > 0 {
		b = keyenc.Append(binary.AppendUvarint(b, uint64(r.span.Microseconds())), r.mark)
	}
	b = keyenc.Append(keyenc.Append(b, r.store), r.policy)
	for _, p := range r.key {
		b = keyenc.Append(keyenc.Append(b, p.name), p.value)
	}
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, b, nil))
}

// errNoReservation is the answer to an id that no server with this secret made.
var errNoReservation error = &fault{http.StatusNotFound, "there is no such reservation: its id was changed on the way, or made by a server with another secret or before a restart; give all servers one --reservation-secret-file"}

// markBytes is how much of an id names it: its nonce.
const markBytes = 12

// open reads an id.
func (s *seal) open(id string) (*reservation, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(id)
	if err != nil || len(sealed) < markBytes {
		return nil, errNoReservation
	}
	b, err := s.aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, errNoReservation
	}
	u := unsealer{rest: b}
	version, degraded := u.byte(), u.byte()
	r := &reservation{degraded: degraded == 1, mark: string(sealed[:markBytes])}
	r.units, r.at, r.ttl = u.number(), u.number(), time.Duration(u.number())*time.Microsecond
	if version == operationVersion {
		r.span, r.mark = time.Duration(u.number())*time.Microsecond, u.text()
	}
	r.store, r.policy = u.text(), u.text()
	for len(u.rest) > 0 && u.err == nil {
		r.key = append(r.key, pair{u.text(), u.text()})
	}
	if u.err != nil || version != reservationVersion && version != operationVersion {
		return nil, errNoReservation // sealed by a later version
	}
	return r, nil
}

// unsealer reads what a seal has written.
type unsealer struct {
	rest []byte
	err  error
}

var errShort = errors.New("short")

func (u *unsealer) byte() byte {
	if len(u.rest) == 0 {
		u.err = errShort
		return 0
	}
	c := u.rest[0]
	u.rest = u.rest[1:]
	return c
}

func (u *unsealer) number() int64 {
	n, size := binary.Uvarint(u.rest)
	if size <= 0 {
		u.err, u.rest = errShort, nil
		return 0
	}
	u.rest = u.rest[size:]
	return int64(n)
}

func (u *unsealer) text() string {
	n := u.number()
	if n < 0 || n > int64(len(u.rest)) {
		u.err, u.rest = errShort, nil
		return ""
	}
	text := string(u.rest[:n])
	u.rest = u.rest[n:]
	return text
}

// expired reports whether the reservation cannot be settled any more at an instant
// of the engine's clock.
func (r *reservation) expired(at time.Time) bool {
	return at.UnixMicro() >= r.at+r.ttl.Microseconds()
}

// bind binds a reservation to the store of its grant, and returns its id. The store of
// a degraded one may be away; its grant is in none.
func (s *Server) bind(ctx context.Context, r *reservation) (id string, err error) {
	if r.store, err = s.identity.get(ctx); err != nil && !r.degraded {
		return "", err
	}
	return s.seal.id(r), nil
}

// errOtherStore is the answer to a reservation that this store has not granted.
var errOtherStore error = &fault{http.StatusNotFound, "the reservation was made on another store, or before this one lost its data, so nothing was changed; settle it by a server on its own store"}

// bound returns an error unless the reservation is of the store of this server.
func (s *Server) bound(ctx context.Context, r *reservation) error {
	if r.store == "" && r.degraded {
		return nil
	}
	if is, err := s.identity.is(ctx, r.store); is || err != nil {
		return err
	}
	return errOtherStore
}

// claimed is for how long a claim must be remembered at least.
func (r *reservation) claimed() time.Duration {
	if r.span > 0 {
		return r.span
	}
	return r.ttl
}

// claim names the reservation among those that were settled.
func (r *reservation) claim() weir.Key { return weir.K(r.mark) }

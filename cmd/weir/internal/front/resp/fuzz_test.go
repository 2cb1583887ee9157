package resp

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
)

// FuzzSession sends arbitrary bytes. The session must not panic. Its answers must not
// depend on the split into packets or on waiting decisions, and must be RESP: one reply
// for each command.
func FuzzSession(f *testing.F) {
	for _, text := range []string{
		array("WEIR.PEEK", "push", "teacher=42") + array("WEIR.CHECK", "push", "teacher=42", "3"),
		array("WEIR.RECORD", "wide", "user=a", "tenant=b", "2251799813685247") + array("WEIR.PEEK", "wide", "tenant=b", "user=a"),
		array("WEIR.REFUND", "one", "946684800000000", "5") + array("WEIR.RESET", "one") + "WEIR.CHECK one\r\n",
		array("WEIR.CHECK", "wide", "user=a", "tenant=b") + array("WEIR.COUNT", "wide", "tenant=b", "user=a", "1000", "LIMIT", "user") + array("WEIR.COUNT", "one", "1"),
		array("HELLO", "3", "AUTH", "default", "secret-of-tests!", "SETNAME", "x") + array("CONFIG", "GET", "save") + array("CLIENT", "INFO"),
		array("AUTH", "secret-of-tests!") + array("CONFIG", "GET", "save", "appendonly") + array("INFO") + array("RESET") + array("QUIT"),
		array("WEIR.CHECK", "push", "a=1", "b=1", "c=1", "d=1") + array("WEIR.CHECK", "push", "d=1", "c=1", "b=1", "a=1"),
		"*2\r\n$4\r\nECHO\r\n$3\r\na\nb\r\n*-1\r\n*0\r\n\r\nPING\n",
		"*1\r\n$-1\r\n", "*1\r\n*1\r\n", "*65\r\n", "*1\r\n$65537\r\n", "GET / HTTP/1.1\r\n", "*3\r\n$4\r\nPI",
	} {
		f.Add([]byte(text), uint16(len(text)/2))
	}
	for _, seed := range []struct { // found by fuzzing
		text string
		cut  uint16
	}{
		{"*", 2},
		{"\n", 159},
		{"\x7f0\n0", 162},
		{"\xe7\f\xd7\n", 159},
		{"*1\r\n0", 68},
		{"*0A\r\n0", 53},
		{"\r\n\r\n0\n", 10},
		{"0\r\n!00\r\n", 4},
		{"\r\n\r\n\r\n\f\f\f \n", 53},
		{"\x13\n!0\n0000\r\n!0\r\n000\r\n", 7},
		{array("0000", "000"), 7},
		{array("ECHO", "000") + "!00\n", 19},
		{"!\n0\n0\n!\n000\n!\n0000000000\n0000\n", 60},
		{array("AUTH", "000000") + "*1\r\n$0\r\n00000000", 60},
		{"\xff\xff\xff\n" + array("WEIR.CHECK", "push", "teacher=00", "0"), 175},
		{"AAAAAA\n" + array("WEIR.CHECK", "push", "teacher=00", "0"), 136},
		{"0\nB80200200\n2\n000\nA\n001120170\n1\n171171\n20809\n0000\nWEIR.CHEcK one \n", 25},
		{array("HELLO", "2", "0000", "0000000", "000000", "0000000", "0") + array("CONFIG", "GET", "save"), 102},
		{array("HELLO", "2", "AUTH", "0000000", "000000", "0000000", "0") + array("CONFIG", "GET", "save"), 65},
		{array("HELLO", "2", "AUTH", "default", "secret-of-tests!", "A\x7f00000", "0") + array("0AAAAAA", "0000"), 76},
		{array("HELLO", "3", "AUTH", "default", "secret-of-tests!", "SETNAME", "0") + array("0AAAAAA", "0000"), 76},
		{array("AX\x80\xff0220101", "000", "008002171118021", "0") + array("WEIR.RESET", "000") + "WEIR.CHECK one \n", 53},
	} {
		f.Add([]byte(seed.text), seed.cut)
	}
	f.Fuzz(func(t *testing.T, text []byte, cut uint16) {
		synctest.Test(t, func(t *testing.T) { // time stands still, so answers can be compared
			whole, err := converse(t, false, string(text))
			n := min(int(cut), len(text))
			for _, waits := range []bool{false, true} {
				pieces, err2 := converse(t, waits, string(text[:n]), string(text[n:]))
				if whole != pieces || fmt.Sprint(err) != fmt.Sprint(err2) {
					t.Errorf("%q: answers %q, %v; cut after %d, waiting %v: %q, %v", text, whole, err, n, waits, pieces, err2)
				}
			}
			for rest := whole; rest != ""; {
				var bad error
				if rest, bad = cutReply(rest); bad != nil {
					t.Fatalf("%q: answers %q: %v", text, whole, bad)
				}
			}
		})
	})
}

// converse sends the pieces as separate packets.
func converse(t *testing.T, waits bool, pieces ...string) (answers string, err error) {
	s := newTestServer(t, func(c *Config) {
		c.Waits = waits
		c.Admin = secret(t, "secret-of-tests!")
	})
	c := session{server: s, id: 1, protocol: 2}
	buffered := ""
	for _, piece := range pieces {
		buffered += piece
		used, err := c.answer(buffered)
		buffered = buffered[used:]
		if err != nil || c.ended {
			return string(c.out), err
		}
	}
	return string(c.out), nil
}

// cutReply cuts a reply off the beginning of text, as a client reads it.
func cutReply(text string) (rest string, err error) {
	head, rest, ok := strings.Cut(text, "\r\n")
	if !ok || head == "" || strings.Contains(head, "\n") {
		return "", fmt.Errorf("no line at %.40q", text)
	}
	n, notANumber := strconv.Atoi(head[1:])
	switch head[0] {
	case '+', '-':
		return rest, nil
	case ':':
		return rest, notANumber
	case '$':
		if n == -1 {
			return rest, nil
		}
		if notANumber != nil || len(rest) < n+2 || rest[n:n+2] != "\r\n" {
			return "", fmt.Errorf("bad bulk string at %.40q", text)
		}
		return rest[n+2:], nil
	case '%':
		n *= 2
	case '*':
	default:
		return "", fmt.Errorf("no reply at %.40q", text)
	}
	for range n {
		if rest, err = cutReply(rest); err != nil {
			return "", err
		}
	}
	return rest, notANumber
}

package resp

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// BenchmarkSession is what a decision costs without a network: parsing, deciding
// and writing the answer.
func BenchmarkSession(b *testing.B) {
	for name, args := range map[string][]string{
		"check":    {"WEIR.CHECK", "big", "k=some.key"},
		"throttle": {"CL.THROTTLE", "some.key", "1000000", "1000000", "60"},
	} {
		b.Run(name, func(b *testing.B) {
			c := session{server: newTestServer(b), protocol: 2}
			text := strings.Repeat(array(args...), 16)
			b.ReportAllocs()
			for n := 0; n < b.N; n += 16 {
				c.out = c.out[:0]
				c.answer(text)
			}
		})
	}
}

// BenchmarkConnection is what a decision costs over loopback, client and server
// together, alone and in pipelines.
func BenchmarkConnection(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			c := dial(b, listening(b, newTestServer(b)))
			ask := array("CL.THROTTLE", "some.key", "0", "1", "100000000")
			send(b, c, ask)
			wantAnswer(b, c, "*5\r\n:0\r\n:1\r\n:0\r\n:-1\r\n:100000000\r\n")
			answers := make([]byte, depth*len("*5\r\n:1\r\n:1\r\n:0\r\n:100000000\r\n:100000000\r\n"))
			text := []byte(strings.Repeat(ask, depth))
			for n := 0; n < b.N; n += depth {
				c.Write(text)
				if _, err := io.ReadFull(c, answers); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

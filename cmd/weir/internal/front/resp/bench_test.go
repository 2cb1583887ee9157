package resp

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// BenchmarkSession measures a decision without a network: parsing, deciding and writing.
func BenchmarkSession(b *testing.B) {
	c := session{server: newTestServer(b), protocol: 2}
	text := strings.Repeat(array("WEIR.CHECK", "big", "k=some.key"), 16)
	b.ReportAllocs()
	for n := 0; n < b.N; n += 16 {
		c.out = c.out[:0]
		c.answer(text)
	}
}

// BenchmarkConnection measures a decision over loopback, client and server together,
// alone and in pipelines.
func BenchmarkConnection(b *testing.B) {
	for _, depth := range []int{1, 16} {
		b.Run(fmt.Sprintf("pipeline=%d", depth), func(b *testing.B) {
			c := dial(b, listening(b, newTestServer(b)))
			c.SetDeadline(time.Time{})
			ask := array("WEIR.CHECK", "big", "k=some.key")
			answers := make([]byte, depth*len("*9\r\n:1\r\n:1\r\n:1099511627775\r\n:0\r\n:60000\r\n$0\r\n\r\n:1795186127069717\r\n:0\r\n:0\r\n"))
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

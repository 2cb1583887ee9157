package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/bench/internal/weirserve"
)

// keys is the number of users.
const keys = 10_000

// request writes the bytes of a request for a user.
type request func(b []byte, user int) []byte

func check(policy string) request {
	return func(b []byte, user int) []byte {
		body := fmt.Appendf(nil, `{"policy":%q,"key":{"user":"user-%06d"},"n":1}`, policy, userOf(policy, user))
		return append(fmt.Appendf(b, "POST /v1/check HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)), body...)
	}
}

func gate(policy string) request {
	return func(b []byte, user int) []byte {
		return fmt.Appendf(b, "GET /gate/%s?user=user-%06d HTTP/1.1\r\nHost: weir\r\n\r\n", policy, userOf(policy, user))
	}
}

// userOf returns the same user every time for a hot key.
func userOf(policy string, user int) int {
	if policy == "hot" {
		return 0
	}
	return user
}

// sendFor sends requests on so many connections for a while and returns the number of
// answers.
func sendFor(s *weirserve.Server, next request, callers int, each time.Duration) (int64, error) {
	var answers atomic.Int64
	var bad atomic.Pointer[error]
	var all sync.WaitGroup
	end := time.Now().Add(each)
	for range callers {
		all.Go(func() {
			conn, err := s.Dial()
			if err != nil {
				bad.Store(&err)
				return
			}
			defer conn.Close()
			in := bufio.NewReader(conn)
			var b []byte
			for time.Now().Before(end) {
				b = next(b[:0], rand.IntN(keys))
				_, err := conn.Write(b)
				if err == nil {
					err = skip(in)
				}
				if err != nil {
					bad.Store(&err)
					return
				}
				answers.Add(1)
			}
		})
	}
	all.Wait()
	if err := bad.Load(); err != nil {
		return 0, *err
	}
	return answers.Load(), nil
}

// skip reads one answer.
func skip(in *bufio.Reader) error {
	length := 0
	for first := true; ; first = false {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !bytes.HasPrefix(line, []byte("HTTP/1.1 2")) && !bytes.HasPrefix(line, []byte("HTTP/1.1 429")) && !bytes.HasPrefix(line, []byte("HTTP/1.1 503")) {
			return fmt.Errorf("answer %s", line)
		}
		if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(v))); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			_, err := in.Discard(length)
			return err
		}
	}
}

// Command stand serves the shared cases of the clients in other languages: it starts weir for a
// case, and puts a proxy with the faults of networks before each listener. Test suites in any
// language control it by HTTP; clients/testdata/README.md describes the calls.
//
//	go run ./clients/stand
//
// The first line of its output is the address of the control port. It ends with its standard
// input, and the servers end with it.
//
// A proxy in each language was the alternative. Three proxies would have three kinds of faults.
package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/weirlimit/weir/internal/testkit/program"
)

func main() {
	weir := flag.String("weir", "", "the `program` to serve; default: built from this checkout")
	flag.Parse()
	if err := run(*weir); err != nil {
		fmt.Fprintln(os.Stderr, "stand:", err)
		os.Exit(1)
	}
}

func run(weir string) (err error) {
	if weir == "" {
		if weir, err = program.Build(); err != nil {
			return err
		}
	}
	s, err := newStand(weir)
	if err != nil {
		return err
	}
	defer s.close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	go http.Serve(listener, s.handler())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

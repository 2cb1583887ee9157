package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/weirlimit/weir/bench/internal/pace"
)

// parcel is bytes on their way through a relay; no bytes are the end of the connection.
type parcel struct {
	due  time.Time
	to   net.Conn
	data []byte
}

// relay passes connections on to a server and delays everything by half of a round trip each
// way. It prints its address, and returns at the end of its standard input.
//
// All delays are equal, so one queue has the parcels of all connections in the order in which
// they are due, and one thread sleeps.
func relay(server string, trip time.Duration) error {
	runtime.GOMAXPROCS(runtime.NumCPU() + 1) // for the thread that sleeps
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	queue := make(chan parcel, 1<<16)
	go deliver(queue)
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			back, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			go collect(client, back, trip/2, queue)
			go collect(back, client, trip/2, queue)
		}
	}()
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// collect queues everything that arrives from a connection.
func collect(from, to net.Conn, delay time.Duration, queue chan<- parcel) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		due := time.Now().Add(delay)
		if n > 0 {
			queue <- parcel{due, to, bytes.Clone(buffer[:n])}
		}
		if err != nil {
			queue <- parcel{due, to, nil}
			return
		}
	}
}

// deliver writes parcels when they are due. A write to a connection that has ended is ignored.
func deliver(queue <-chan parcel) {
	for p := range queue {
		pace.SleepUntil(p.due)
		if p.data == nil {
			p.to.Close()
		} else {
			p.to.Write(p.data)
		}
	}
}

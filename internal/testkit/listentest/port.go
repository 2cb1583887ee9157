package listentest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// held has the locks of the ports of this process, by their addresses.
var held struct {
	mu    sync.Mutex
	locks map[string]net.PacketConn
}

// HoldPort returns an address of 127.0.0.1 on which nothing listens. No other caller of HoldPort
// gets it, in no process, before ReleasePort or the end of this process. So a test may close its
// listener, be sure that nobody else answers there, and listen again. Nothing listens either on the
// ports in the distances above it.
//
// The lock is the UDP port of the same number: the system frees it with the process. The port is
// below the ephemeral ports of the system. Other tests get those as free ones. A client that keeps
// dialling an ephemeral port of a dead server may get that port as its own, and so reach itself.
func HoldPort(above ...int) (address string, err error) {
	for range 100 {
		port := 12_000 + rand.IntN(10_000)
		if address, err = holdPort(port, above); err == nil {
			return address, nil
		}
	}
	return "", fmt.Errorf("no free port found: %w", err)
}

func holdPort(port int, above []int) (string, error) {
	lock, err := net.ListenPacket("udp", addressOf(port))
	if err != nil {
		return "", err
	}
	err = listens(port)
	for _, distance := range above {
		err = errors.Join(err, listens(port+distance))
	}
	if err != nil {
		lock.Close()
		return "", err
	}
	held.mu.Lock()
	defer held.mu.Unlock()
	if held.locks == nil {
		held.locks = map[string]net.PacketConn{}
	}
	held.locks[addressOf(port)] = lock
	return addressOf(port), nil
}

// listens returns an error if somebody else listens on a port.
func listens(port int) error {
	l, err := net.Listen("tcp", addressOf(port))
	if err != nil {
		return err
	}
	return l.Close()
}

func addressOf(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ReleasePort ends the hold of HoldPort.
func ReleasePort(address string) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if lock := held.locks[address]; lock != nil {
		lock.Close()
		delete(held.locks, address)
	}
}

package listentest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// held has the locks of the ports of this process, by their addresses.
var held struct {
	mu    sync.Mutex
	locks map[string]net.PacketConn
}

// HoldPort returns an address of 127.0.0.1 on which nothing listens. No other caller of HoldPort
// gets it, in no process, before ReleasePort or the end of this process. So a test may close its
// listener, be sure that no other server answers there, and listen again. Nothing listens either on the
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
	err = isFree(port)
	for _, distance := range above {
		err = errors.Join(err, isFree(port+distance))
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

// isFree returns an error if a server listens on a port. It listens nowhere itself: a process that
// another goroutine starts has the listeners of this one until it runs its program, even closed ones.
func isFree(port int) error {
	c, err := net.Dial("tcp", addressOf(port))
	if err != nil {
		return nil
	}
	c.Close()
	return fmt.Errorf("a server listens on port %d", port)
}

func addressOf(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Listen listens on an address of HoldPort, perhaps again. It tries for some seconds, because a process
// that is being started may still have a listener that this one has closed.
func Listen(address string) (l net.Listener, err error) {
	for range 1000 {
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return l, err
}

// ReleasePort ends the hold of HoldPort.
func ReleasePort(address string) {
	held.mu.Lock()
	defer held.mu.Unlock()
	if lock := held.locks[address]; lock != nil {
		lock.Close()
		delete(held.locks, address)
	}
}

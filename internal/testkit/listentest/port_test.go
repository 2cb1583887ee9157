package listentest

import (
	"net"
	"strconv"
	"strings"
	"testing"
)

// TestHeldPortIsGivenOnce: while a port is held, it is free and no caller gets it again. A port on
// which a server listens is held by nobody.
func TestHeldPortIsGivenOnce(t *testing.T) {
	address, err := HoldPort(10_000)
	if err != nil {
		t.Fatal(err)
	}
	defer ReleasePort(address)
	_, number, _ := strings.Cut(address, ":")
	port, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := holdPort(port, nil); err == nil {
		t.Errorf("the held port was given again: %s", got)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	ReleasePort(address)
	for p, above := range map[int][]int{port: nil, port - 1: {1}} {
		if got, err := holdPort(p, above); err == nil {
			t.Errorf("%s was given, although a server listens on %s", got, address)
			ReleasePort(got)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := holdPort(port, nil); err != nil {
		t.Errorf("the released port was not given: %v", err)
	}
}

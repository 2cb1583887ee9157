package listentest

import (
	"os/exec"
	"sync"
	"testing"
)

// TestHeldPortCanBeUsed: a test can listen on a held port, close it and listen again, while other
// goroutines start processes, which have the listeners of this one for a moment.
func TestHeldPortCanBeUsed(t *testing.T) {
	stop := make(chan struct{})
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					exec.Command("true").Run()
				}
			}
		})
	}
	for range 2000 {
		address, err := HoldPort()
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			l, err := Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			l.Close()
		}
		ReleasePort(address)
	}
	close(stop)
	starts.Wait()
}

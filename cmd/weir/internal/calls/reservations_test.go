package calls

import "testing"

// TestOpenReservations follows reservations to their settlement, their end, and beyond the bound.
func TestOpenReservations(t *testing.T) {
	var o openReservations
	want := func(now, open, ended, missed int64) {
		t.Helper()
		a, b, c := o.counts(now)
		if a != open || b != ended || c != missed {
			t.Errorf("%d open, %d ended, %d missed at %d; want %d, %d, %d", a, b, c, now, open, ended, missed)
		}
	}
	o.settle(1) // of another instance
	o.extend(1, 100)
	want(0, 0, 0, 0)
	o.follow(1, 10, 0)
	o.follow(2, 10, 0)
	o.follow(3, 10, 0)
	want(9, 3, 0, 0)
	o.settle(1)
	o.extend(2, 20)
	want(10, 1, 1, 0)
	o.settle(3) // too late
	want(20, 0, 2, 0)
	for i := range uint64(maxFollowed + 5) {
		o.follow(i, 30, 20)
	}
	want(29, maxFollowed, 2, 5)
	o.follow(maxFollowed+10, 40+sweepEvery, 30+sweepEvery)
	want(30+sweepEvery, 1, 2+maxFollowed, 5)
}

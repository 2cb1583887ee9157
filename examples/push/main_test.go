package main

func Example() {
	main()
	// Output:
	// 09:00:00  push 1 sent, 9 left in this minute
	// 09:00:03  push 2 sent, 8 left in this minute
	// 09:00:06  push 3 sent, 7 left in this minute
	// 09:00:09  push 4 sent, 6 left in this minute
	// 09:00:12  push 5 sent, 5 left in this minute
	// 09:00:15  push 6 sent, 4 left in this minute
	// 09:00:18  push 7 sent, 3 left in this minute
	// 09:00:21  push 8 sent, 2 left in this minute
	// 09:00:24  push 9 sent, 1 left in this minute
	// 09:00:27  push 10 sent, 0 left in this minute
	// 09:01:00  push 11 sent, 0 left in this minute
	// 09:01:03  push 12 sent, 0 left in this minute
}

package main

func Example() {
	main()
	// Output:
	// Mon 22:30 code sent
	// Mon 22:40 code sent
	// Mon 22:50 code sent
	// Mon 23:00 code sent
	// Mon 23:10 code sent
	// Mon 23:20 code sent
	// Mon 23:30 code sent
	// Mon 23:40 code sent
	// Mon 23:50 code sent
	// Tue 00:00 code sent
	// Tue 00:10 no code; the next one is possible on Tue 22:30
	// Tue 00:20 no code; the next one is possible on Tue 22:30
}

package main

func Example() {
	main()
	// Output:
	// 09:00:00  0 failures in the last 20 seconds
	// 09:00:10  5 failures in the last 20 seconds
	// 09:00:20  7 failures in the last 20 seconds  <- alarm
	// 09:00:30  3 failures in the last 20 seconds
	// 09:00:40  1 failures in the last 20 seconds
	// 09:00:50  1 failures in the last 20 seconds
	// 09:01:00  1 failures in the last 20 seconds
}

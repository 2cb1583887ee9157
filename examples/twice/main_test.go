package main

func Example() {
	main()
	// Output:
	// fixed window  at most 10 in any minute; first minute: 00:58.0 00:58.1 00:58.2 00:58.3 00:58.4 01:00.0 01:00.1 01:00.2 01:00.3 01:00.4
	// token bucket  at most  9 in any minute; first minute: 00:58.0 00:58.1 00:58.2 00:58.3 00:58.4 01:10.0 01:22.0 01:34.0 01:46.0
	// weir, fixed   at most 10 in any minute; first minute: 00:58.0 00:58.1 00:58.2 00:58.3 00:58.4 01:00.0 01:00.1 01:00.2 01:00.3 01:00.4
	// weir          at most  5 in any minute; first minute: 00:58.0 00:58.1 00:58.2 00:58.3 00:58.4
}

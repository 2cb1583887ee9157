package main

func Example() {
	main()
	// Output:
	// AllOrNothing
	//    0s  4 of 4 rows, remaining  6, four more after 0s
	//   10s  4 of 4 rows, remaining  2, four more after 50s
	//   20s  0 of 4 rows, remaining  2, four more after 40s
	//   30s  0 of 4 rows, remaining  2, four more after 30s
	//   40s  0 of 4 rows, remaining  2, four more after 20s
	//   50s  0 of 4 rows, remaining  2, four more after 10s
	//   60s  4 of 4 rows, remaining  2, four more after 10s
	//   70s  4 of 4 rows, remaining  2, four more after 50s
	// Partial
	//    0s  4 of 4 rows, remaining  6, four more after 0s
	//   10s  4 of 4 rows, remaining  2, four more after 50s
	//   20s  2 of 4 rows, remaining  0, four more after 40s
	//   30s  0 of 4 rows, remaining  0, four more after 30s
	//   40s  0 of 4 rows, remaining  0, four more after 20s
	//   50s  0 of 4 rows, remaining  0, four more after 10s
	//   60s  4 of 4 rows, remaining  0, four more after 10s
	//   70s  4 of 4 rows, remaining  0, four more after 50s
	// CountDenied
	//    0s  4 of 4 rows, remaining  6, four more after 0s
	//   10s  4 of 4 rows, remaining  2, four more after 50s
	//   20s  0 of 4 rows, remaining -2, four more after 50s
	//   30s  0 of 4 rows, remaining -2, four more after 50s
	//   40s  0 of 4 rows, remaining -2, four more after 50s
	//   50s  0 of 4 rows, remaining -2, four more after 50s
	//   60s  0 of 4 rows, remaining -2, four more after 50s
	//   70s  0 of 4 rows, remaining -2, four more after 50s
}

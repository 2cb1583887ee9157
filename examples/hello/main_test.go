package main

func Example() {
	main()
	// Output:
	// true 1 0s
	// true 0 1m0s
	// false 0 1m0s
}

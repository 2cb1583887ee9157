package main

func Example() {
	main()
	// Output:
	// allowed, left: 1
	// allowed, left: 0
	// denied, try again in 1m0s
}

package main

func Example() {
	main()
	// Output:
	// $1200.00 sent, $800.00 left
	// $700.50 sent, $99.50 left
	// $150.00 denied, $99.50 left; possible in 22h0m0s
	// $2000.01 is more than a day's limit
	// $700.50 taken back
	// $150.00 sent, $650.00 left
	// $650.01 denied, $650.00 left; possible in 20h0m0s
}

package main

func Example() {
	main()
	// Output:
	// service-01   6 sent, held back:  0 by category,  0 by channel
	// service-02   8 sent, held back:  0 by category,  0 by channel
	// service-03  10 sent, held back:  0 by category,  0 by channel
	// service-04  10 sent, held back:  2 by category,  0 by channel
	// service-05  10 sent, held back:  4 by category,  0 by channel
	// service-06  10 sent, held back:  6 by category,  0 by channel
	// service-07  10 sent, held back:  8 by category,  0 by channel
	// service-08  10 sent, held back: 10 by category,  0 by channel
	// service-09  10 sent, held back: 12 by category,  0 by channel
	// service-10  10 sent, held back: 14 by category,  0 by channel
	// service-11   6 sent, held back:  0 by category, 20 by channel
	// service-12   0 sent, held back:  0 by category, 28 by channel
	// service-13   0 sent, held back:  0 by category, 30 by channel
	// 100 messages in the channel
}

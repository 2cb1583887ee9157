package faulttest

const workerEnv = "WEIR_FAULTTEST_WORKER"

func work(addr string) int { return 0 }

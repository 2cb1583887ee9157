//go:build !race && !purego

#include "textflag.h"

TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVD slot+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVD p+0(FP), R0
	MOVD value+8(FP), R1
	STLR R1, (R0)
	RET

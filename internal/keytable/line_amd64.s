//go:build !purego

#include "textflag.h"

TEXT ·prefetch(SB), NOSPLIT, $0-8
	MOVQ slot+0(FP), AX
	PREFETCHT0 (AX)
	RET

TEXT ·storePlain(SB), NOSPLIT, $0-16
	MOVQ p+0(FP), AX
	MOVQ value+8(FP), BX
	MOVQ BX, (AX)
	RET

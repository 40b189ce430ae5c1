// Names that the device compiler provides: qualifiers, element types, pipes.
#pragma once
#include <stdint.h>

// Address spaces and function kinds mean nothing to the host; the type check against the real headers keeps them right.
#define __aicore__
#define __global__
#define __simd_vf__
#define __simd_callee__ __attribute__((always_inline))  // a vector function is one piece: constant masks fold
#define __mix__(cube, vector)
#define __gm__
#define __ubuf__
#define __cbuf__
#define __ca__
#define __cb__
#define __cc__

struct fp8_e4m3fn_t {
    uint8_t bits;
};
struct bfloat16_t {
    uint16_t bits;
};
struct half {
    uint16_t bits;
};

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX = 10 };

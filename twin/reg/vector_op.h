// The kinds of vector instruction that a count or a clock tells apart.
#pragma once
#include <cstdint>

namespace twin {

// X(enumerator, CANN spelling, issue, cycles, registers)
//   issue      1: alone in its cycle, 2: two of the kind per cycle
//   cycles     a unit is busy with 256 bytes
//   registers  vector registers written; two a cycle is the machine's limit
// LocalMemBar orders but does no work: no cycle of a unit is known for it.
// Source: the pages on throughput and on dual issue of the Reg API, NPU arch 3510.
#define QBSA_VECTOR_OPS(X)                                         \
    X(kCreateMask, "CreateMask", 2, 1, 0)                          \
    X(kUpdateMask, "UpdateMask", 2, 1, 0)                          \
    X(kMaskLogic, "And/Or/Xor/Not/Move/Select (MaskReg)", 2, 1, 0) \
    X(kLoad, "LoadAlign", 2, 1, 1)                                 \
    X(kLoadBroadcast, "LoadAlign DIST_BRC_B32", 2, 1, 1)           \
    X(kLoadBlock, "LoadAlign DIST_BLK", 2, 1, 1)                   \
    X(kLoadPerBlock, "LoadAlign DIST_E2B_B32", 2, 1, 1)            \
    X(kLoadPair, "LoadAlign DIST_DINTLV_B32", 1, 1, 2)             \
    X(kStore, "StoreAlign", 1, 1, 0)                               \
    X(kStoreFirst, "StoreAlign DIST_FIRST_ELEMENT_B32", 1, 1, 0)   \
    X(kStorePack4, "StoreAlign DIST_PACK4_B32", 1, 1, 0)           \
    X(kStorePair, "StoreAlign DIST_INTLV_B32", 1, 2, 0)            \
    X(kStoreBlocks, "StoreAlign DATA_BLOCK_COPY", 1, 2, 0)         \
    X(kAdd, "Add/Sub/Adds", 2, 1, 1)                               \
    X(kAddInt, "Add/Sub/Adds (int32)", 2, 2, 1)                    \
    X(kMul, "Mul/Muls", 2, 1, 1)                                   \
    X(kMulInt, "Mul/Muls (int32)", 2, 2, 1)                        \
    X(kMulAdd, "MulAddDst/MulDstAdd", 2, 1, 1)                     \
    X(kMaxMin, "Max/Min/Maxs/Mins", 2, 1, 1)                       \
    X(kLogic, "And/Or/Xor", 2, 1, 1)                               \
    X(kShift, "ShiftLefts/ShiftRights", 2, 1, 1)                   \
    X(kDiv, "Div", 2, 4, 1)                                        \
    X(kExp, "Exp", 2, 4, 1)                                        \
    X(kExpSub, "ExpSub", 2, 4, 1)                                  \
    X(kLn, "Ln", 2, 4, 1)                                          \
    X(kCompare, "Compare/Compares", 2, 1, 0)                       \
    X(kSelect, "Select", 2, 1, 1)                                  \
    X(kCast, "Cast (float, bfloat16_t)", 2, 1, 1)                  \
    X(kCastF8, "Cast (float, fp8_e4m3fn_t)", 2, 2, 1)              \
    X(kCastInt, "Cast (float, int32_t)", 2, 2, 1)                  \
    X(kDuplicate, "Duplicate", 2, 1, 1)                            \
    X(kArange, "Arange (float)", 2, 1, 1)                          \
    X(kArangeInt, "Arange (int32)", 2, 2, 1)                       \
    X(kMove, "Move", 2, 1, 1)                                      \
    X(kReduce, "Reduce", 1, 1, 1)                                  \
    X(kReduceBlock, "ReduceDataBlock", 1, 1, 1)                    \
    X(kMemBar, "LocalMemBar", 1, 0, 0)

enum class VectorOp : uint8_t {
#define X(name, spelling, issue, cycles, registers) name,
    QBSA_VECTOR_OPS(X)
#undef X
        kCount
};

}  // namespace twin

// Every operation of twin/reg on registers that lie in memory, for test_reg.py. A register is 256 bytes, a mask 256
// bytes of 0 or 0xFF. With QBSA_TWIN_CHECKED the hooks of the engine are a log.
#include "reg/reg.h"

namespace reg = AscendC::Reg;
using reg::CastTrait;
using reg::MaskMergeMode;
using reg::MaskPattern;
using reg::MaskReg;
using reg::ReduceType;
using reg::RegLayout;
using reg::RegTensor;
using reg::SatMode;

#define EXPORT extern "C" __attribute__((visibility("default")))

#if QBSA_TWIN_CHECKED
namespace {
struct Log {
    uint32_t ops[(int)twin::VectorOp::kCount];
    uint32_t loaded_bytes;
    uint32_t stored_bytes;
    uint32_t align;
    uint32_t values;
} hook_log;
}  // namespace
void twin::on_vector_op(VectorOp op) { ++hook_log.ops[(int)op]; }
void twin::on_vector_load(const void*, uint32_t bytes, uint32_t align, VectorOp, uintptr_t)
{
    hook_log.loaded_bytes += bytes;
    hook_log.align = align;
    ++hook_log.values;
}
void twin::on_vector_store(void*, uint32_t bytes, uint32_t align, VectorOp, uintptr_t)
{
    hook_log.stored_bytes += bytes;
    hook_log.align = align;
}
void twin::on_vector_fence(VectorFence) {}
void twin::on_vector_value(uintptr_t, std::initializer_list<uintptr_t>) { ++hook_log.values; }
void twin::on_vector_store_bytes(void*, const uint8_t* active, uint32_t bytes, uint32_t align, VectorOp, uintptr_t)
{
    for (uint32_t i = 0; i < bytes; ++i) {
        hook_log.stored_bytes += active[i] != 0;
    }
    hook_log.align = align;
}

// The log of what ran since the last call: total instructions, the kind of the last of them in enum order, bytes,
// align, registers that were told to have got a value, and those that these instructions write.
EXPORT void take_log(uint32_t* instructions, const char** spelling, uint32_t* loaded, uint32_t* stored, uint32_t* align,
                     uint32_t* values, uint32_t* registers)
{
    static const char* const kSpelling[] = {
#define X(name, text, issue, cycles, registers) text,
        QBSA_VECTOR_OPS(X)
#undef X
    };
    static const uint32_t kRegisters[] = {
#define X(name, text, issue, cycles, registers) registers,
        QBSA_VECTOR_OPS(X)
#undef X
    };
    *instructions = *registers = 0;
    *spelling = "";
    for (int op = 0; op < (int)twin::VectorOp::kCount; ++op) {
        *instructions += hook_log.ops[op];
        *registers += hook_log.ops[op] * kRegisters[op];
        *spelling = hook_log.ops[op] != 0 ? kSpelling[op] : *spelling;
    }
    *loaded = hook_log.loaded_bytes;
    *stored = hook_log.stored_bytes;
    *align = hook_log.align;
    *values = hook_log.values;
    hook_log = {};
}
#endif

namespace {

template <typename T>
RegTensor<T> get(const void* from)
{
    RegTensor<T> x;
    twin::for_chunks([&](auto i) { x.set(i, twin::load<uint32_t>((const uint8_t*)from + i * twin::kSimdBytes)); });
    return x;
}
template <typename T>
void put(void* to, const RegTensor<T>& x)
{
    twin::for_chunks([&](auto i) { twin::store((uint8_t*)to + i * twin::kSimdBytes, x.chunks[i]); });
}
MaskReg get_mask(const void* from)
{
    MaskReg mask;
    twin::for_chunks(
        [&](auto i) { mask.bytes[i] = twin::load<uint32_t>((const uint8_t*)from + i * twin::kSimdBytes); });
    return mask;
}
void put_mask(void* to, const MaskReg& mask)
{
    twin::for_chunks([&](auto i) { twin::store((uint8_t*)to + i * twin::kSimdBytes, mask.bytes[i]); });
}

}  // namespace

EXPORT void set_ctrl(uint64_t ctrl) { twin::running_ctrl = ctrl; }

#define MASKS(X)                                                                                                 \
    X(ALL, float) X(ALL, uint8_t) X(ALL, uint16_t) X(VL1, float) X(VL3, uint16_t) X(VL8, float) X(VL32, int32_t) \
    X(VL128, uint8_t) X(VL128, float) X(M3, float) X(M4, uint8_t) X(H, float) X(Q, uint16_t) X(ALLF, float)
#define X(pattern, T) \
    EXPORT void create_mask_##pattern##_##T(void* to) { put_mask(to, reg::CreateMask<T, MaskPattern::pattern>()); }
MASKS(X)
#undef X
EXPORT uint32_t update_mask_float(void* to, uint32_t count)
{
    put_mask(to, reg::UpdateMask<float>(count));
    return count;
}
EXPORT uint32_t update_mask_uint8_t(void* to, uint32_t count)
{
    put_mask(to, reg::UpdateMask<uint8_t>(count));
    return count;
}
EXPORT void mask_logic(int which, void* to, const void* a, const void* b, const void* m)
{
    MaskReg dst, x = get_mask(a), y = get_mask(b), mask = get_mask(m);
    switch (which) {
        case 0:
            reg::And(dst, x, y, mask);
            break;
        case 1:
            reg::Or(dst, x, y, mask);
            break;
        case 2:
            reg::Xor(dst, x, y, mask);
            break;
        case 3:
            reg::Not(dst, x, mask);
            break;
        case 4:
            reg::Move(dst, x, mask);
            break;
        case 5:
            reg::Move(dst, x);
            break;
        default:
            reg::Select(dst, x, y, mask);
            break;
    }
    put_mask(to, dst);
}

#define BINARY(Name, T)                                                            \
    EXPORT void Name##_##T(void* d, const void* a, const void* b, const void* m) { \
        auto dst = get<T>(d), x = get<T>(a), y = get<T>(b);                        \
        MaskReg mask = get_mask(m);                                                \
        reg::Name(dst, x, y, mask);                                                \
        put(d, dst);                                                               \
    }
BINARY(Add, float)
BINARY(Sub, float)
BINARY(Mul, float)
BINARY(Max, float)
BINARY(Min, float)
BINARY(Div, float)
BINARY(MulAddDst, float)
BINARY(MulDstAdd, float)
BINARY(ExpSub, float)
BINARY(Add, int32_t)
BINARY(Sub, int32_t)
BINARY(Mul, int32_t)
BINARY(Max, int32_t)
BINARY(Min, int32_t)
BINARY(And, uint8_t)
BINARY(Or, uint8_t)
BINARY(Or, uint16_t)
BINARY(And, int32_t)
BINARY(Xor, uint32_t)
BINARY(Select, float)
BINARY(Select, int32_t)

EXPORT void MaxMerging_float(void* d, const void* a, const void* b, const void* m)
{
    auto dst = get<float>(d), x = get<float>(a), y = get<float>(b);
    MaskReg mask = get_mask(m);
    reg::Max<float, MaskMergeMode::MERGING>(dst, x, y, mask);
    put(d, dst);
}

#define UNARY(Name, T)                                              \
    EXPORT void Name##_##T(void* d, const void* a, const void* m) { \
        auto dst = get<T>(d), x = get<T>(a);                        \
        MaskReg mask = get_mask(m);                                 \
        reg::Name(dst, x, mask);                                    \
        put(d, dst);                                                \
    }
UNARY(Exp, float)
UNARY(Ln, float)
UNARY(Move, float)
UNARY(Move, int32_t)

EXPORT void DuplicateLane_float(void* d, const void* a, const void* m)
{
    auto dst = get<float>(d), x = get<float>(a);
    MaskReg mask = get_mask(m);
    reg::Duplicate(dst, x, mask);
    put(d, dst);
}
EXPORT void MoveAll_float(void* d, const void* a)
{
    auto dst = get<float>(d), x = get<float>(a);
    reg::Move(dst, x);
    put(d, dst);
}

#define SCALAR(Name, T, U)                                                    \
    EXPORT void Name##_##T(void* d, const void* a, U scalar, const void* m) { \
        auto dst = get<T>(d), x = get<T>(a);                                  \
        MaskReg mask = get_mask(m);                                           \
        reg::Name(dst, x, scalar, mask);                                      \
        put(d, dst);                                                          \
    }
SCALAR(Adds, float, float)
SCALAR(Muls, float, float)
SCALAR(Maxs, float, float)
SCALAR(Mins, float, float)
SCALAR(Adds, int32_t, int32_t)
SCALAR(Muls, int32_t, int32_t)
SCALAR(Maxs, int32_t, int32_t)
SCALAR(Mins, int32_t, int32_t)
SCALAR(ShiftLefts, int32_t, int16_t)
SCALAR(ShiftRights, int32_t, int16_t)
SCALAR(ShiftLefts, uint32_t, int16_t)
SCALAR(ShiftRights, uint32_t, int16_t)

#define DUPLICATE(T)                                                     \
    EXPORT void Duplicate_##T(void* d, T scalar) {                       \
        RegTensor<T> dst;                                                \
        reg::Duplicate(dst, scalar);                                     \
        put(d, dst);                                                     \
    }                                                                    \
    EXPORT void DuplicateMasked_##T(void* d, T scalar, const void* m) {  \
        auto dst = get<T>(d);                                            \
        MaskReg mask = get_mask(m);                                      \
        reg::Duplicate(dst, scalar, mask);                               \
        put(d, dst);                                                     \
    }                                                                    \
    EXPORT void DuplicateMerging_##T(void* d, T scalar, const void* m) { \
        auto dst = get<T>(d);                                            \
        MaskReg mask = get_mask(m);                                      \
        reg::Duplicate<T, MaskMergeMode::MERGING>(dst, scalar, mask);    \
        put(d, dst);                                                     \
    }
DUPLICATE(float)
DUPLICATE(int32_t)
DUPLICATE(uint16_t)
DUPLICATE(uint8_t)

EXPORT void Arange_int32_t(void* d, int32_t first)
{
    RegTensor<int32_t> dst;
    reg::Arange(dst, first);
    put(d, dst);
}
EXPORT void Arange_float(void* d, float first)
{
    RegTensor<float> dst;
    reg::Arange(dst, first);
    put(d, dst);
}

#define COMPARE(mode)                                                        \
    case (int)AscendC::CMPMODE::mode:                                        \
        if (scalar) {                                                        \
            reg::Compares<T, AscendC::CMPMODE::mode>(dst, x, *scalar, mask); \
        } else {                                                             \
            reg::Compare<T, AscendC::CMPMODE::mode>(dst, x, y, mask);        \
        }                                                                    \
        break;
template <typename T>
void compare(int mode, void* to, const void* a, const void* b, const T* scalar, const void* m)
{
    auto x = get<T>(a), y = get<T>(b);
    MaskReg dst, mask = get_mask(m);
    switch (mode) {
        COMPARE(LT) COMPARE(GT) COMPARE(EQ) COMPARE(LE) COMPARE(GE) default : COMPARE(NE)
    }
    put_mask(to, dst);
}
EXPORT void compare_float(int mode, void* to, const void* a, const void* b, const float* scalar, const void* m)
{
    compare<float>(mode, to, a, b, scalar, m);
}
EXPORT void compare_int32_t(int mode, void* to, const void* a, const void* b, const int32_t* scalar, const void* m)
{
    compare<int32_t>(mode, to, a, b, scalar, m);
}

template <RegLayout kLayout, SatMode kSat>
constexpr CastTrait kRint = {kLayout, kSat, MaskMergeMode::ZEROING, AscendC::RoundMode::CAST_RINT};
#define CAST(To, From, layout, sat)                                                            \
    EXPORT void Cast_##To##_##From##_##layout##_##sat(void* d, const void* a, const void* m) { \
        static constexpr CastTrait kTrait = kRint<RegLayout::layout, SatMode::sat>;            \
        auto dst = get<To>(d);                                                                 \
        auto x = get<From>(a);                                                                 \
        MaskReg mask = get_mask(m);                                                            \
        reg::Cast<To, From, kTrait>(dst, x, mask);                                             \
        put(d, dst);                                                                           \
    }
CAST(fp8_e4m3fn_t, float, ZERO, SAT)
CAST(fp8_e4m3fn_t, float, ONE, SAT)
CAST(fp8_e4m3fn_t, float, TWO, SAT)
CAST(fp8_e4m3fn_t, float, THREE, SAT)
CAST(fp8_e4m3fn_t, float, ZERO, NO_SAT)
CAST(bfloat16_t, float, ZERO, NO_SAT)
CAST(bfloat16_t, float, ONE, NO_SAT)
CAST(bfloat16_t, float, ZERO, SAT)
CAST(int32_t, float, UNKNOWN, SAT)
CAST(float, int32_t, UNKNOWN, UNKNOWN)

#define REDUCE(type, T)                                                               \
    EXPORT void Reduce_##type##_##T(void* d, const void* a, const void* m) {          \
        auto dst = get<T>(d), x = get<T>(a);                                          \
        MaskReg mask = get_mask(m);                                                   \
        reg::Reduce<ReduceType::type>(dst, x, mask);                                  \
        put(d, dst);                                                                  \
    }                                                                                 \
    EXPORT void ReduceDataBlock_##type##_##T(void* d, const void* a, const void* m) { \
        auto dst = get<T>(d), x = get<T>(a);                                          \
        MaskReg mask = get_mask(m);                                                   \
        reg::ReduceDataBlock<ReduceType::type>(dst, x, mask);                         \
        put(d, dst);                                                                  \
    }
REDUCE(SUM, float)
REDUCE(MAX, float)
REDUCE(MIN, float)
REDUCE(SUM, int32_t)
REDUCE(MAX, int32_t)

#define LOAD(dist)                                             \
    EXPORT void LoadAlign_##dist(void* d, float* from) {       \
        RegTensor<float> dst;                                  \
        reg::LoadAlign<float, reg::LoadDist::dist>(dst, from); \
        put(d, dst);                                           \
    }
LOAD(DIST_NORM)
LOAD(DIST_BRC_B32)
LOAD(DIST_BLK)
LOAD(DIST_E2B_B32)

EXPORT void LoadAlign_DIST_DINTLV_B32(void* even, void* odd, float* from)
{
    RegTensor<float> x, y;
    reg::LoadAlign<float, reg::LoadDist::DIST_DINTLV_B32>(x, y, from);
    put(even, x);
    put(odd, y);
}

#define STORE(dist, T)                                                         \
    EXPORT void StoreAlign_##dist##_##T(T* to, const void* a, const void* m) { \
        auto x = get<T>(a);                                                    \
        MaskReg mask = get_mask(m);                                            \
        reg::StoreAlign<T, reg::StoreDist::dist>(to, x, mask);                 \
    }
STORE(DIST_NORM, float)
STORE(DIST_NORM, uint16_t)
STORE(DIST_NORM, uint8_t)
STORE(DIST_FIRST_ELEMENT_B32, float)
STORE(DIST_PACK4_B32, uint8_t)

EXPORT void StoreAlign_DIST_INTLV_B32_float(float* to, const void* a, const void* b, const void* m)
{
    auto x = get<float>(a), y = get<float>(b);
    MaskReg mask = get_mask(m);
    reg::StoreAlign<float, reg::StoreDist::DIST_INTLV_B32>(to, x, y, mask);
}
EXPORT void StoreAlign_blocks_uint16_t(uint16_t* to, const void* a, uint32_t stride, const void* m)
{
    auto x = get<uint16_t>(a);
    MaskReg mask = get_mask(m);
    reg::StoreAlign<uint16_t, reg::DataCopyMode::DATA_BLOCK_COPY>(to, x, stride, mask);
}
EXPORT void fence() { reg::LocalMemBar<reg::MemType::VEC_STORE, reg::MemType::VEC_LOAD>(); }

// Views of one register as other types, as kernels make them: the low bytes of four registers, packed.
EXPORT void pack_bytes(void* to, const void* a, const void* b)
{
    auto x = get<uint32_t>(a), y = get<uint32_t>(b);
    MaskReg all = reg::CreateMask<uint32_t, MaskPattern::ALL>();
    MaskReg bytes = reg::CreateMask<uint8_t, MaskPattern::ALL>();
    reg::ShiftLefts(y, y, (int16_t)8, all);
    reg::Or((RegTensor<uint8_t>&)x, (RegTensor<uint8_t>&)x, (RegTensor<uint8_t>&)y, bytes);
    reg::Adds(x, x, 1u, all);
    put(to, x);
}

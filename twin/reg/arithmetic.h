// Lane-wise arithmetic and logic: register with register, register with scalar, fused forms, functions of one register.
#pragma once
#include "../numeric/lanes.h"
#include "register.h"

namespace twin {

template <typename T>
constexpr bool kComputes = std::is_same_v<T, float> || std::is_same_v<T, int32_t> || std::is_same_v<T, uint32_t>;

// int32 additions and multiplications run at half the rate of fp32 ones.
template <typename T>
constexpr VectorOp rate_of(VectorOp of_float, VectorOp of_int)
{
    return kIsFloat<T> ? of_float : of_int;
}

}  // namespace twin

namespace AscendC {
namespace Reg {

#define QBSA_BINARY(Name, function, op, int_op)                                                                    \
    template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>                   \
    QBSA_INLINE void Name(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask) {                                      \
        using Element = typename U::ActualT;                                                                       \
        static_assert(twin::kTypeFits<T, U> && twin::kComputes<Element>, #Name ": the twin has no such type");     \
        twin::on_vector_op(twin::rate_of<Element>(twin::VectorOp::op, twin::VectorOp::int_op));                    \
        twin::map_lanes<Element, mode>(                                                                            \
            dstReg, mask, QBSA_LANES(auto a, auto b) { return twin::function<Element>(a, b); }, srcReg0, srcReg1); \
    }
QBSA_BINARY(Add, add, kAdd, kAddInt)
QBSA_BINARY(Sub, sub, kAdd, kAddInt)
QBSA_BINARY(Mul, mul, kMul, kMulInt)
QBSA_BINARY(Max, max, kMaxMin, kMaxMin)
QBSA_BINARY(Min, min, kMaxMin, kMaxMin)
#undef QBSA_BINARY

#define QBSA_BINARY_SCALAR(Name, function, op, int_op)                                                         \
    template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S>   \
    QBSA_INLINE void Name(S& dstReg, S& srcReg, U scalarValue, MaskReg& mask) {                                \
        using Element = typename S::ActualT;                                                                   \
        static_assert(twin::kTypeFits<T, S> && twin::kComputes<Element>, #Name ": the twin has no such type"); \
        twin::on_vector_op(twin::rate_of<Element>(twin::VectorOp::op, twin::VectorOp::int_op));                \
        const auto scalar = twin::splat((Element)scalarValue);                                                 \
        twin::map_lanes<Element, mode>(                                                                        \
            dstReg, mask, QBSA_LANES(auto a) { return twin::function<Element>(a, scalar); }, srcReg);          \
    }
QBSA_BINARY_SCALAR(Adds, add, kAdd, kAddInt)
QBSA_BINARY_SCALAR(Muls, mul, kMul, kMulInt)
QBSA_BINARY_SCALAR(Maxs, max, kMaxMin, kMaxMin)
QBSA_BINARY_SCALAR(Mins, min, kMaxMin, kMaxMin)
#undef QBSA_BINARY_SCALAR

#define QBSA_SHIFT(Name, function)                                                                           \
    template <typename T = DefaultType, typename U, MaskMergeMode mode = MaskMergeMode::ZEROING, typename S> \
    QBSA_INLINE void Name(S& dstReg, S& srcReg, U scalarValue, MaskReg& mask) {                              \
        using Element = typename S::ActualT;                                                                 \
        static_assert(twin::kTypeFits<T, S> && std::is_integral_v<Element> && sizeof(Element) == 4,          \
                      #Name ": the twin shifts int32_t and uint32_t");                                       \
        static_assert(std::is_same_v<U, int16_t>, #Name ": the scalar is int16_t");                          \
        twin::on_vector_op(twin::VectorOp::kShift);                                                          \
        twin::map_lanes<Element, mode>(                                                                      \
            dstReg, mask, QBSA_LANES(auto a) { return twin::function<Element>(a, scalarValue); }, srcReg);   \
    }
QBSA_SHIFT(ShiftLefts, shift_left)
QBSA_SHIFT(ShiftRights, shift_right)
#undef QBSA_SHIFT

// Bits, whatever the integer type; the mask counts elements of that type.
#define QBSA_LOGIC(Name, op)                                                                          \
    template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>      \
    QBSA_INLINE void Name(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask) {                         \
        using Element = typename U::ActualT;                                                          \
        static_assert(twin::kTypeFits<T, U> && std::is_integral_v<Element>, #Name ": integers only"); \
        twin::on_vector_op(twin::VectorOp::kLogic);                                                   \
        twin::map_lanes<Element, mode>(                                                               \
            dstReg, mask, QBSA_LANES(auto a, auto b) { return a op b; }, srcReg0, srcReg1);           \
    }
QBSA_LOGIC(And, &)
QBSA_LOGIC(Or, |)
QBSA_LOGIC(Xor, ^)
#undef QBSA_LOGIC

// dst = src0 * src1 + dst, rounded once.
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>
QBSA_INLINE void MulAddDst(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, U> && std::is_same_v<typename U::ActualT, float>, "MulAddDst: float only");
    twin::on_vector_op(twin::VectorOp::kMulAdd);
    twin::map_lanes<float, mode>(
        dstReg, mask, QBSA_LANES(auto a, auto b, auto d) { return twin::canonical(twin::fma(a, b, d)); }, srcReg0,
        srcReg1, dstReg);
}

// dst = dst * src0 + src1, rounded once.
template <typename T = DefaultType, MaskMergeMode mode = MaskMergeMode::ZEROING, typename U>
QBSA_INLINE void MulDstAdd(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, U> && std::is_same_v<typename U::ActualT, float>, "MulDstAdd: float only");
    twin::on_vector_op(twin::VectorOp::kMulAdd);
    twin::map_lanes<float, mode>(
        dstReg, mask, QBSA_LANES(auto a, auto b, auto d) { return twin::canonical(twin::fma(d, a, b)); }, srcReg0,
        srcReg1, dstReg);
}

// exp(src0 - src1), the difference rounded to fp32.
template <typename T = DefaultType, typename U = DefaultType, RegLayout layout = RegLayout::ZERO,
          MaskMergeMode mode = MaskMergeMode::ZEROING, typename S, typename V>
QBSA_INLINE void ExpSub(S& dstReg, V& srcReg0, V& srcReg1, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, S> && twin::kTypeFits<U, V>, "ExpSub: type and register differ");
    static_assert(std::is_same_v<typename S::ActualT, float> && std::is_same_v<typename V::ActualT, float>,
                  "ExpSub: float only");
    twin::on_vector_op(twin::VectorOp::kExpSub);
    twin::map_lanes<float, mode>(
        dstReg, mask, QBSA_LANES(auto a, auto b) { return twin::exp(a - b); }, srcReg0, srcReg1);
}

template <typename T = DefaultType, auto mode = MaskMergeMode::ZEROING, typename U>
QBSA_INLINE void Exp(U& dstReg, U& srcReg, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, U> && std::is_same_v<typename U::ActualT, float>, "Exp: float only");
    twin::on_vector_op(twin::VectorOp::kExp);
    twin::map_lanes<float, mode>(dstReg, mask, QBSA_LANES(auto a) { return twin::exp(a); }, srcReg);
}

template <typename T = DefaultType, auto mode = MaskMergeMode::ZEROING, typename U>
QBSA_INLINE void Ln(U& dstReg, U& srcReg, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, U> && std::is_same_v<typename U::ActualT, float>, "Ln: float only");
    twin::on_vector_op(twin::VectorOp::kLn);
    twin::map_lanes<float, mode>(dstReg, mask, QBSA_LANES(auto a) { return twin::ln(a); }, srcReg);
}

template <typename T = DefaultType, auto mode = MaskMergeMode::ZEROING, typename U>
QBSA_INLINE void Div(U& dstReg, U& srcReg0, U& srcReg1, MaskReg& mask)
{
    static_assert(twin::kTypeFits<T, U> && std::is_same_v<typename U::ActualT, float>, "Div: float only");
    twin::on_vector_op(twin::VectorOp::kDiv);
    twin::map_lanes<float, mode>(
        dstReg, mask, QBSA_LANES(auto a, auto b) { return twin::div(a, b); }, srcReg0, srcReg1);
}

}  // namespace Reg
}  // namespace AscendC

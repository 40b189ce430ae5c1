// Softmax over 128 rows of 128 fp32, in the forms that the public sample measures, and GELU.
// UB: scores [128][128], numerators [128][128], one register a row for sums.
#pragma once
#include "kernel_operator.h"

namespace points {

namespace reg = AscendC::Reg;
using F32 = reg::RegTensor<float>;

constexpr uint16_t kRows = 128;
constexpr uint32_t kLanes = 64;
constexpr uint16_t kRegisters = 2;  // of a row
constexpr uint32_t kRow = kRegisters * kLanes;
constexpr uint32_t kNumerators = kRows * kRow;
constexpr uint32_t kSums = 2 * kNumerators;
constexpr uint32_t kUbFloats = 3 * kNumerators;
constexpr uint16_t kGeluRegisters = 128;

__simd_callee__ inline reg::MaskReg all_lanes() { return reg::CreateMask<float, reg::MaskPattern::ALL>(); }
__simd_callee__ inline void fence() { reg::LocalMemBar<reg::MemType::VEC_STORE, reg::MemType::VEC_LOAD>(); }

// Mask of the next register, by UpdateMask or constant.
template <bool kMasks>
__simd_callee__ inline reg::MaskReg next_mask(uint32_t& left)
{
    if constexpr (kMasks) {
        return reg::UpdateMask<float>(left);
    } else {
        return all_lanes();
    }
}

// One step each, from UB to UB: what one call of the Memory API does to a row.
__simd_callee__ inline void row_max(__ubuf__ float* to, __ubuf__ float* from, reg::MaskReg& all)
{
    F32 top, x;
    uint32_t left = kRow;
    reg::Duplicate(top, -3.0e38f);
    for (uint16_t j = 0; j < kRegisters; ++j) {
        reg::MaskReg mask = reg::UpdateMask<float>(left);
        reg::LoadAlign(x, from + j * kLanes);
        reg::Max(top, top, x, mask);
    }
    reg::Reduce<reg::ReduceType::MAX>(top, top, all);
    reg::StoreAlign<float, reg::StoreDist::DIST_FIRST_ELEMENT_B32>(to, top, all);
}
__simd_callee__ inline void row_sum(__ubuf__ float* to, __ubuf__ float* from, reg::MaskReg& all)
{
    F32 sum, x;
    uint32_t left = kRow;
    reg::Duplicate(sum, 0.0f);
    for (uint16_t j = 0; j < kRegisters; ++j) {
        reg::MaskReg mask = reg::UpdateMask<float>(left);
        reg::LoadAlign(x, from + j * kLanes);
        reg::Add(sum, sum, x, mask);
    }
    reg::Reduce<reg::ReduceType::SUM>(sum, sum, all);
    reg::StoreAlign<float, reg::StoreDist::DIST_FIRST_ELEMENT_B32>(to, sum, all);
}
__simd_callee__ inline void row_spread(__ubuf__ float* row, reg::MaskReg& all)
{
    F32 x;
    uint32_t left = kRow;
    reg::LoadAlign(x, row);
    reg::Duplicate(x, x, all);
    for (uint16_t j = 0; j < kRegisters; ++j) {
        reg::MaskReg mask = reg::UpdateMask<float>(left);
        reg::StoreAlign(row + j * kLanes, x, mask);
    }
}
template <int kOperation>  // 0: a - b, 1: exp(a), 2: a / b
__simd_callee__ inline void row_apply(__ubuf__ float* to, __ubuf__ float* a, __ubuf__ float* b)
{
    F32 x, y;
    uint32_t left = kRow;
    for (uint16_t j = 0; j < kRegisters; ++j) {
        reg::MaskReg mask = reg::UpdateMask<float>(left);
        reg::LoadAlign(x, a + j * kLanes);
        if constexpr (kOperation != 1) reg::LoadAlign(y, b + j * kLanes);
        if constexpr (kOperation == 0) reg::Sub(x, x, y, mask);
        if constexpr (kOperation == 1) reg::Exp(x, x, mask);
        if constexpr (kOperation == 2) reg::Div(x, x, y, mask);
        reg::StoreAlign(to + j * kLanes, x, mask);
    }
}

// The seven steps of a row in one function, a fence behind each.
__simd_vf__ inline void softmax_fenced(__ubuf__ float* ub, uint16_t rows)
{
    reg::MaskReg all = all_lanes();
    for (uint16_t i = 0; i < rows; ++i) {
        row_max(ub + kNumerators + i * kRow, ub + i * kRow, all);
        fence();
    }
    for (uint16_t i = 0; i < rows; ++i) {
        __ubuf__ float* row = ub + kNumerators + i * kRow;
        row_spread(row, all);
        fence();
        row_apply<0>(row, ub + i * kRow, row);
        fence();
        row_apply<1>(row, row, row);
        fence();
        row_sum(ub + kSums + i * kRow, row, all);
        fence();
    }
    for (uint16_t i = 0; i < rows; ++i) {
        row_spread(ub + kSums + i * kRow, all);
        fence();
        row_apply<2>(ub + i * kRow, ub + kNumerators + i * kRow, ub + kSums + i * kRow);
        fence();
    }
}

// The same steps as functions of their own.
__simd_vf__ inline void max_of_row(__ubuf__ float* to, __ubuf__ float* from)
{
    reg::MaskReg all = all_lanes();
    row_max(to, from, all);
}
__simd_vf__ inline void sum_of_row(__ubuf__ float* to, __ubuf__ float* from)
{
    reg::MaskReg all = all_lanes();
    row_sum(to, from, all);
}
__simd_vf__ inline void spread_in_row(__ubuf__ float* row)
{
    reg::MaskReg all = all_lanes();
    row_spread(row, all);
}
template <int kOperation>
__simd_vf__ inline void apply_to_row(__ubuf__ float* to, __ubuf__ float* a, __ubuf__ float* b)
{
    row_apply<kOperation>(to, a, b);
}
inline void softmax_by_calls(__ubuf__ float* ub)
{
    for (uint32_t i = 0; i < kRows; ++i) {
        __ubuf__ float* scores = ub + i * kRow;
        __ubuf__ float* row = ub + kNumerators + i * kRow;
        __ubuf__ float* sums = ub + kSums + i * kRow;
        asc_vf_call<max_of_row>(row, scores);
        asc_vf_call<spread_in_row>(row);
        asc_vf_call<apply_to_row<0>>(row, scores, row);
        asc_vf_call<apply_to_row<1>>(row, row, row);
        asc_vf_call<sum_of_row>(sums, row);
        asc_vf_call<spread_in_row>(sums);
        asc_vf_call<apply_to_row<2>>(scores, row, sums);
    }
}

// Two loops over the rows, with nothing but the numerators stored between them; kCount rows in turn in one round.
template <bool kMasks, uint16_t kCount>
__simd_callee__ inline void softmax_rounds(__ubuf__ float* ub, uint16_t rounds)
{
    reg::MaskReg all = all_lanes();
    const uint32_t step = uint32_t(rounds) * kRow;
    for (uint16_t i = 0; i < rounds; ++i) {
        F32 top[kCount], x[kCount];
        __ubuf__ float* from = ub + i * kRow;
        uint32_t left = kRow, left_again = kRow;
        for (uint16_t r = 0; r < kCount; ++r) reg::Duplicate(top[r], -3.0e38f);
        for (uint16_t j = 0; j < kRegisters; ++j) {
            reg::MaskReg mask = kMasks ? next_mask<kMasks>(left) : all;
            for (uint16_t r = 0; r < kCount; ++r) reg::LoadAlign(x[r], from + j * kLanes + r * step);
            for (uint16_t r = 0; r < kCount; ++r) reg::Max(top[r], top[r], x[r], mask);
        }
        for (uint16_t r = 0; r < kCount; ++r) reg::Reduce<reg::ReduceType::MAX>(top[r], top[r], all);
        for (uint16_t r = 0; r < kCount; ++r) reg::Duplicate(top[r], top[r], all);
        for (uint16_t j = 0; j < kRegisters; ++j) {
            reg::MaskReg mask = kMasks ? next_mask<kMasks>(left_again) : all;
            for (uint16_t r = 0; r < kCount; ++r) reg::LoadAlign(x[r], from + j * kLanes + r * step);
            for (uint16_t r = 0; r < kCount; ++r) reg::ExpSub(x[r], x[r], top[r], mask);
            for (uint16_t r = 0; r < kCount; ++r) {
                reg::StoreAlign(from + kNumerators + j * kLanes + r * step, x[r], mask);
            }
        }
    }
    fence();
    for (uint16_t i = 0; i < rounds; ++i) {
        F32 sum[kCount], x[kCount];
        __ubuf__ float* row = ub + kNumerators + i * kRow;
        uint32_t left = kRow, left_again = kRow;
        for (uint16_t r = 0; r < kCount; ++r) reg::Duplicate(sum[r], 0.0f);
        for (uint16_t j = 0; j < kRegisters; ++j) {
            reg::MaskReg mask = kMasks ? next_mask<kMasks>(left) : all;
            for (uint16_t r = 0; r < kCount; ++r) reg::LoadAlign(x[r], row + j * kLanes + r * step);
            for (uint16_t r = 0; r < kCount; ++r) reg::Add(sum[r], sum[r], x[r], mask);
        }
        for (uint16_t r = 0; r < kCount; ++r) reg::Reduce<reg::ReduceType::SUM>(sum[r], sum[r], all);
        for (uint16_t r = 0; r < kCount; ++r) reg::Duplicate(sum[r], sum[r], all);
        for (uint16_t j = 0; j < kRegisters; ++j) {
            reg::MaskReg mask = kMasks ? next_mask<kMasks>(left_again) : all;
            for (uint16_t r = 0; r < kCount; ++r) reg::LoadAlign(x[r], row + j * kLanes + r * step);
            for (uint16_t r = 0; r < kCount; ++r) reg::Div(x[r], x[r], sum[r], mask);
            for (uint16_t r = 0; r < kCount; ++r) reg::StoreAlign(ub + i * kRow + j * kLanes + r * step, x[r], mask);
        }
    }
}
template <bool kMasks>
__simd_vf__ inline void softmax_rows(__ubuf__ float* ub, uint16_t rows)
{
    softmax_rounds<kMasks, 1>(ub, rows);
}
template <bool kMasks>
__simd_vf__ inline void softmax_pairs(__ubuf__ float* ub, uint16_t rows)
{
    softmax_rounds<kMasks, 2>(ub, rows / 2);
}

// x / (1 + exp(-1.5957691 (x + 0.044715 x^3)))
__simd_vf__ inline void gelu(__ubuf__ float* ub, uint16_t registers)
{
    uint32_t left = registers * kLanes;
    for (uint16_t i = 0; i < registers; ++i) {
        F32 x, y;
        reg::MaskReg mask = reg::UpdateMask<float>(left);
        reg::LoadAlign(x, ub + i * kLanes);
        reg::Mul(y, x, x, mask);
        reg::Mul(y, y, x, mask);
        reg::Muls(y, y, 0.044715f, mask);
        reg::Add(y, y, x, mask);
        reg::Muls(y, y, -1.5957691f, mask);
        reg::Exp(y, y, mask);
        reg::Adds(y, y, 1.0f, mask);
        reg::Div(y, x, y, mask);
        reg::StoreAlign(ub + kNumerators + i * kLanes, y, mask);
    }
}

// The same in eight functions from UB to UB.
enum GeluStep { kSquare, kCube, kScale, kAddX, kNegate, kExponential, kAddOne, kQuotient };
template <int kStep>
__simd_vf__ inline void gelu_step(__ubuf__ float* ub, uint16_t registers)
{
    reg::MaskReg all = all_lanes();
    for (uint16_t i = 0; i < registers; ++i) {
        F32 x, y;
        __ubuf__ float* result = ub + kNumerators + i * kLanes;
        constexpr bool kReadsX = kStep == kSquare || kStep == kCube || kStep == kAddX || kStep == kQuotient;
        if constexpr (kReadsX) reg::LoadAlign(x, ub + i * kLanes);
        if constexpr (kStep == kSquare) {
            reg::LoadAlign(y, ub + i * kLanes);
        } else {
            reg::LoadAlign(y, result);
        }
        if constexpr (kStep == kSquare || kStep == kCube) reg::Mul(y, y, x, all);
        if constexpr (kStep == kScale) reg::Muls(y, y, 0.044715f, all);
        if constexpr (kStep == kAddX) reg::Add(y, y, x, all);
        if constexpr (kStep == kNegate) reg::Muls(y, y, -1.5957691f, all);
        if constexpr (kStep == kExponential) reg::Exp(y, y, all);
        if constexpr (kStep == kAddOne) reg::Adds(y, y, 1.0f, all);
        if constexpr (kStep == kQuotient) reg::Div(y, x, y, all);
        reg::StoreAlign(result, y, all);
    }
}
inline void gelu_by_calls(__ubuf__ float* ub)
{
    asc_vf_call<gelu_step<kSquare>>(ub, kGeluRegisters);
    asc_vf_call<gelu_step<kCube>>(ub, kGeluRegisters);
    asc_vf_call<gelu_step<kScale>>(ub, kGeluRegisters);
    asc_vf_call<gelu_step<kAddX>>(ub, kGeluRegisters);
    asc_vf_call<gelu_step<kNegate>>(ub, kGeluRegisters);
    asc_vf_call<gelu_step<kExponential>>(ub, kGeluRegisters);
    asc_vf_call<gelu_step<kAddOne>>(ub, kGeluRegisters);
    asc_vf_call<gelu_step<kQuotient>>(ub, kGeluRegisters);
}

}  // namespace points

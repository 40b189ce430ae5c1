// Mmad on the cube: e4m3, half or bfloat16, both of one type, -> fp32.
#pragma once
#include "multiply.h"
#include "tensor.h"

namespace AscendC {

struct MmadParams {
    MmadParams() {}
    MmadParams(const uint16_t mIn, const uint16_t nIn, const uint16_t kIn, const bool isBiasIn,
               const int32_t fmOffsetIn, const bool enSsparseIn, const bool enWinogradAIn, const bool enWinogradBIn)
        : m(mIn),
          n(nIn),
          k(kIn),
          isBias(isBiasIn),
          fmOffset(fmOffsetIn),
          enSsparse(enSsparseIn),
          enWinogradA(enWinogradAIn),
          enWinogradB(enWinogradBIn)
    {
    }
    MmadParams(const uint16_t mIn, const uint16_t nIn, const uint16_t kIn, const uint8_t unitFlagIn,
               const bool cmatrixSourceIn, const bool cmatrixInitValIn)
        : m(mIn), n(nIn), k(kIn), unitFlag(unitFlagIn), cmatrixSource(cmatrixSourceIn), cmatrixInitVal(cmatrixInitValIn)
    {
    }

    uint16_t m = 0;
    uint16_t n = 0;
    uint16_t k = 0;
    bool isBias = false;
    int32_t fmOffset = 0;
    bool enSsparse = false;
    bool enWinogradA = false;
    bool enWinogradB = false;
    uint8_t unitFlag = 0;
    bool kDirectionAlign = false;
    bool cmatrixSource = false;
    bool cmatrixInitVal = true;  // C starts from 0, not from its old value
    bool disableGemv = false;
};

}  // namespace AscendC

namespace twin {

template <typename T>
constexpr bool kMultiplies =
    std::is_same<T, fp8_e4m3fn_t>::value || std::is_same<T, half>::value || std::is_same<T, bfloat16_t>::value;

inline void check_mmad(const AscendC::MmadParams& p)
{
    constexpr int64_t kMax = 4095;
    check_range("m", p.m, 0, kMax);
    check_range("n", p.n, 0, kMax);
    check_range("k", p.k, 0, kMax);
    check_unused("isBias", p.isBias);
    check_unused("unitFlag", p.unitFlag);
    check_unused("kDirectionAlign", p.kDirectionAlign);
    check_unused("cmatrixSource", p.cmatrixSource);
    if (p.m == 1 && !p.disableGemv) fail("m is 1: A would be read as a plain row; set disableGemv");
}

// Rows of an operand: fractals [depth / C0][rows / 16] of 16 rows, one slab of fractals per step of the depth.
inline Access operand_access(const char* operand, bool write, const Region& region, uint32_t align, uint32_t rows,
                             uint32_t slabs, uint32_t row_bytes)
{
    Access access{operand, write, region, align, region.begin, rows * row_bytes, {}};
    access.loop[2] = {slabs, int64_t(round_up_16(rows)) * row_bytes};
    return access;
}

// Every byte that the product depends on must have been written.
inline void check_operand(const char* operand, Bytes base, uint64_t address, uint32_t rows, uint32_t depth_bytes,
                          uint32_t row_bytes)
{
    if (!kChecked) return;
    const uint32_t slab_bytes = round_up_16(rows) * row_bytes;
    for (uint32_t at = 0; at < depth_bytes; at += row_bytes) {
        uint32_t slab = at / row_bytes * slab_bytes;
        uint32_t used = depth_bytes - at < row_bytes ? depth_bytes - at : row_bytes;
        for (uint32_t row = 0; row < rows; ++row) {
            uint32_t offset = slab + row * row_bytes;
            check_initialised(base + offset, used, operand, address + offset);
        }
    }
}

}  // namespace twin

namespace AscendC {

// C[m][n] = (cmatrixInitVal ? 0 : C) + sum over k, in ascending order, in one fp32 accumulator. Rows and columns past m
// and n are not written.
template <typename T, typename U, typename S>
void Mmad(const LocalTensor<T>& dst, const LocalTensor<U>& fm, const LocalTensor<S>& filter,
          const MmadParams& mmadParams, twin::Where where = twin::Where::here())
{
    static_assert(std::is_same<T, float>::value && std::is_same<U, S>::value && twin::kMultiplies<U>,
                  "the twin multiplies e4m3, half or bfloat16 by the same into fp32");
    twin::Call call{"Mmad", PIPE_M, where};
    twin::Core& core = twin::begin(call);
    const MmadParams p = mmadParams;
    twin::check_mmad(p);
    if (p.m == 0 || p.n == 0 || p.k == 0) return;
    twin::check_memory("C", dst.region(), twin::Memory::kL0C);
    twin::check_memory("A", fm.region(), twin::Memory::kL0A);
    twin::check_memory("B", filter.region(), twin::Memory::kL0B);

    constexpr uint32_t kRow = twin::kFractalRowBytes, kRowC = twin::kCFractalRowBytes;
    const uint32_t k_bytes = p.k * uint32_t(sizeof(U));
    const uint32_t k_slabs = (k_bytes + kRow - 1) / kRow;
    const uint32_t n_slabs = twin::round_up_16(p.n) / 16;
    const auto a = twin::operand_access("A", false, fm.region(), qbsa::arch::kL0Align, p.m, k_slabs, kRow);
    const auto b = twin::operand_access("B", false, filter.region(), qbsa::arch::kL0Align, p.n, k_slabs, kRow);
    const auto c = twin::operand_access("C", true, dst.region(), qbsa::arch::kL0cAlign, p.m, n_slabs, kRowC);
    auto c_old = c;
    c_old.write = false;

    const twin::Bytes a_bytes = twin::bytes_at(core, a);
    const twin::Bytes b_bytes = twin::bytes_at(core, b);
    const twin::Bytes c_bytes = twin::bytes_at(core, c);
    const uint64_t a_at = a.begin, b_at = b.begin, c_at = c.begin;
    auto body = [=] {
        twin::check_operand("A", a_bytes, a_at, p.m, k_bytes, kRow);
        twin::check_operand("B", b_bytes, b_at, p.n, k_bytes, kRow);
        const uint32_t n_bytes = p.n * uint32_t(sizeof(float));
        if (!p.cmatrixInitVal) twin::check_operand("C", c_bytes, c_at, p.m, n_bytes, kRowC);
        twin::multiply<U>(reinterpret_cast<float*>(c_bytes.data), a_bytes.data, b_bytes.data, p.m, p.n, p.k,
                          !p.cmatrixInitVal);
        for (uint32_t column = 0; twin::kChecked && column < p.n; column += 16) {
            const uint32_t used = std::min(16u, p.n - column) * uint32_t(sizeof(float));
            for (uint32_t row = 0; row < p.m; ++row) {
                twin::mark(c_bytes + (column / 16 * twin::round_up_16(p.m) + row) * int64_t(kRowC), used, true);
            }
        }
    };
    if (p.cmatrixInitVal) {
        twin::issue(core, call, {c, a, b}, body);
    } else {
        twin::issue(core, call, {c, c_old, a, b}, body);
    }
}

}  // namespace AscendC

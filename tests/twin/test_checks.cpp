// Bounds, alignment, ranges, ownership, poison, GM extents: every check fails once, with its text.
#include "check.h"

using Fp8 = LocalTensor<fp8_e4m3fn_t>;
using Ub = LocalTensor<uint8_t>;
constexpr FixpipeConfig kNzToUb = {CO2Layout::NZ, true};
constexpr FixpipeConfig kRowsToUb = {CO2Layout::ROW_MAJOR, true};

static std::vector<fp8_e4m3fn_t> g_codes(65536, {0x38});
static std::vector<uint8_t> g_bytes(65536, 1);

static void test_tensors()
{
    const std::string error = run_aic([] { Fp8(TPosition::A1, 524256, 64); });
    CHECK_HAS(error, "AIC group 0, S, LocalTensor (test_checks.cpp:");
    CHECK_HAS(error, "[0x7ffe0, 0x80020) exceeds L1 of 524288 bytes");
    CHECK_HAS(run_aiv([] { Fp8(TPosition::VECIN, 0, 253953); }), "exceeds UB of 253952 bytes");
    CHECK_HAS(run_aic([] { Fp8(TPosition::CO1, 262144, 1); }), "exceeds L0C of 262144 bytes");
    CHECK_HAS(run_aic([] { Fp8(TPosition::C2, 0, 1); }), "the twin has no memory for TPosition 6");
    CHECK_HAS(run_aic([] { Fp8(TPosition::A2, 0, 64)[65]; }), "offset 65 exceeds L0A tensor of 64 elements");
    CHECK_HAS(run_aic([] { Fp8(TPosition::VECIN, 0, 64).GetPhyAddr(); }), "UB belongs to the AIVs");
}

static std::string load(LoadData2DParamsV2 p, uint32_t to_bytes = 65536, uint32_t to = 0, uint32_t from = 0)
{
    return run_aic([=] { LoadData(Fp8(TPosition::B2, to, to_bytes), Fp8(TPosition::B1, from, 32768), p); });
}

static void test_load_data()
{
    const std::string error = load(LoadData2DParamsV2(0, 0, 1, 2, 64, 1, false, 0));
    CHECK_HAS(error, "AIC group 0, MTE1, LoadData (test_checks.cpp:");
    CHECK_HAS(error, "source [0, 0x8200) exceeds L1 tensor of 32768 bytes");
    CHECK_HAS(load(LoadData2DParamsV2(0, 0, 6, 3, 6, 2, true, 0), 1024, 512),
              "destination [0x200, 0x1600) exceeds L0B tensor of 1024 bytes");
    CHECK_HAS(load(LoadData2DParamsV2(0, 0, 1, 1, 1, 1, false, 0), 512, 256),
              "destination address 0x100 is not a multiple of 512");
    CHECK_HAS(load(LoadData2DParamsV2(0, 0, 1, 1, 1, 1, false, 0), 512, 0, 16),
              "source address 0x10 is not a multiple of 32");
    CHECK_HAS(load(LoadData2DParamsV2(0, 0, 256, 1, 1, 1, false, 0)), "mStep is 256, allowed is 0..255");
    CHECK_HAS(load(LoadData2DParamsV2(0, 0, 3, 1, 4, 2, true, 0)), "mStep is 3, not a multiple of 2");
    CHECK_HAS(run_aic([] {
                  LoadData(LocalTensor<float>(TPosition::A2, 0, 1024), LocalTensor<float>(TPosition::A1, 0, 1024),
                           LoadData2DParamsV2(0, 0, 2, 1, 2, 2, true, 0));
              }),
              "sizeof(T) of a transposing LoadData is 4, allowed is 1..2");
    CHECK_HAS(run_aic([] {
                  LoadData(Fp8(TPosition::A1, 0, 1024), Fp8(TPosition::A1, 0, 1024),
                           LoadData2DParamsV2(0, 0, 1, 1, 1, 1, false, 0));
              }),
              "destination is in L1, must be in L0B");
    CHECK_HAS(run_aiv([] { LoadData(Fp8(TPosition::A2, 0, 1024), Fp8(TPosition::A1, 0, 1024), LoadData2DParamsV2()); }),
              "pipe MTE1 belongs to the AIC");
}

static void test_nd2nz()
{
    auto copy = [](Nd2NzParams p) { return run_aic([=] { DataCopy(Fp8(TPosition::A1, 0, 4096), gm(g_codes), p); }); };
    CHECK(copy(Nd2NzParams(1, 16, 256, 0, 256, 16, 1, 0)) == "");
    CHECK_HAS(copy(Nd2NzParams(1, 16, 256, 0, 256, 17, 1, 0)), "AIC group 0, MTE2, DataCopy Nd2Nz (test_checks.cpp:");
    CHECK_HAS(copy(Nd2NzParams(1, 16, 256, 0, 256, 17, 1, 0)),
              "destination [0, 0x10e0) exceeds L1 tensor of 4096 bytes");
    CHECK_HAS(copy(Nd2NzParams(1, 16, 32, 0, 65536, 16, 1, 0)), "srcDValue is 65536, allowed is 1..65535");
    CHECK_HAS(copy(Nd2NzParams(2, 16, 32, 65536, 32, 16, 1, 0)), "srcNdMatrixStride is 65536, allowed is 0..65535");
    CHECK_HAS(copy(Nd2NzParams(1, 16, 32, 0, 32, 16, 0, 0)), "dstNzNStride is 0, allowed is 1..16384");
    CHECK_HAS(copy(Nd2NzParams(2, 1, 32, 0, 32, 16, 1, 33)),
              "dstNzMatrixStride * sizeof(T) is 33, not a multiple of 32");
    CHECK(copy(Nd2NzParams(0, 16, 32, 0, 0, 0, 0, 0)) == "");  // nothing to do
}

static void test_block_copies()
{
    CHECK_HAS(run_aiv([] { DataCopy(Ub(TPosition::VECIN, 0, 64), gm(g_bytes), 65); }),
              "count * sizeof(T) is 65, not a multiple of 32");
    CHECK_HAS(run_aiv([] { DataCopy(Ub(TPosition::VECIN, 0, 64), gm(g_bytes), 96); }),
              "destination [0, 0x60) exceeds UB tensor of 64 bytes");
    CHECK_HAS(run_aiv([] { DataCopy(Ub(TPosition::VECIN, 8, 64), gm(g_bytes), 32); }),
              "destination address 0x8 is not a multiple of 32");
    CHECK_HAS(run_aiv([] {
                  GlobalTensor<float> odd;
                  odd.SetGlobalBuffer(reinterpret_cast<float*>(g_bytes.data() + 1));
                  DataCopy(LocalTensor<float>(TPosition::VECIN, 0, 64), odd, 8);
              }),
              "is not a multiple of 4");
    CHECK_HAS(run_aiv([] { DataCopy(Ub(TPosition::VECIN, 0, 64), gm(g_bytes), DataCopyParams(4096, 1, 0, 0)); }),
              "blockCount is 4096, allowed is 0..4095");
    CHECK_HAS(run_aiv([] { DataCopy(Ub(TPosition::A1, 0, 64), gm(g_bytes), 64); }),
              "destination is in L1, must be in UB");
    CHECK_HAS(run_aic([] { DataCopy(Ub(TPosition::VECIN, 0, 64), gm(g_bytes), 64); }),
              "destination is in UB, must be in L1");
    CHECK_HAS(run_aiv([] { DataCopy(Ub(TPosition::VECIN, 0, 64), Ub(TPosition::VECIN, 0, 64), 64); }),
              "destination is in UB, must be in L1");
    CHECK_HAS(run_aic([] { DataCopy(gm(g_bytes), Ub(TPosition::VECIN, 0, 64), 64); }), "pipe MTE3 belongs to the AIVs");
}

static void test_pad()
{
    auto in = [](DataCopyExtParams p, DataCopyPadExtParams<uint16_t> pad) {
        return run_aiv([=] {
            GlobalTensor<uint16_t> source;
            source.SetGlobalBuffer(reinterpret_cast<uint16_t*>(g_bytes.data()));
            DataCopyPad(LocalTensor<uint16_t>(TPosition::VECIN, 0, 64), source, p, pad);
        });
    };
    const DataCopyPadExtParams<uint16_t> none;
    CHECK_HAS(in(DataCopyExtParams(1, 3, 0, 0, 0), none), "blockLen is 3, not a multiple of 2");
    CHECK_HAS(in(DataCopyExtParams(4096, 2, 0, 0, 0), none), "blockCount is 4096, allowed is 0..4095");
    CHECK_HAS(in(DataCopyExtParams(2, 4, -5, 0, 0), none), "srcStride is -5, allowed is -4..1099511627775");
    CHECK_HAS(in(DataCopyExtParams(2, 4, 0, 65536, 0), none), "dstStride is 65536, allowed is 0..65535");
    CHECK_HAS(in(DataCopyExtParams(1, 4, 0, 0, 0), DataCopyPadExtParams<uint16_t>(true, 17, 0, 0)),
              "leftPadding in bytes is 34, allowed is 0..32");
    CHECK_HAS(in(DataCopyExtParams(5, 2, 0, 0, 0), none), "destination [0, 0xa0) exceeds UB tensor of 128 bytes");
    CHECK_HAS(run_aiv([] {
                  DataCopyPad<uint8_t, PaddingMode::Compact>(gm(g_bytes), Ub(TPosition::VECIN, 0, 64),
                                                             DataCopyExtParams(2, 3, 1, 0, 0));
              }),
              "srcStride is 1, allowed is 0..0");
}

static void test_fill()
{
    CHECK_HAS(
        run_aic([] { Fill(LocalTensor<uint16_t>(TPosition::A1, 0, 64), InitConstValueParams<uint16_t>(2, 2, 1, 0)); }),
        "destination [0, 0xa0) exceeds L1 tensor of 128 bytes");
    CHECK_HAS(
        run_aic([] { Fill(LocalTensor<uint16_t>(TPosition::A2, 0, 64), InitConstValueParams<uint16_t>(1, 1, 0, 0)); }),
        "destination is in L0A, must be in L1");
    CHECK_HAS(run_aic([] {
                  Fill(LocalTensor<uint16_t>(TPosition::A1, 0, 64), InitConstValueParams<uint16_t>(40000, 1, 0, 0));
              }),
              "repeatTimes is 40000, allowed is 0..32767");
}

static std::string mmad(MmadParams p, uint32_t c_at = 0, uint32_t a_bytes = 65536)
{
    return run_aic([=] {
        Mmad(LocalTensor<float>(TPosition::CO1, c_at, 16384), Fp8(TPosition::A2, 0, a_bytes),
             Fp8(TPosition::B2, 0, 65536), p);
    });
}

static void test_mmad()
{
    CHECK_HAS(mmad(MmadParams(4096, 16, 32, 0, false, true)), "m is 4096, allowed is 0..4095");
    CHECK_HAS(mmad(MmadParams(1, 16, 32, 0, false, true)), "m is 1: A would be read as a plain row; set disableGemv");
    CHECK_HAS(mmad(MmadParams(16, 16, 32, 3, false, true)), "unitFlag is 3; the twin offers 0 only");
    CHECK_HAS(mmad(MmadParams(16, 16, 32, 0, true, true)), "cmatrixSource is 1; the twin offers 0 only");
    CHECK_HAS(mmad(MmadParams(16, 16, 32, 0, false, true), 512), "C address 0x200 is not a multiple of 1024");
    CHECK_HAS(mmad(MmadParams(32, 16, 64, 0, false, true), 0, 1024), "A [0, 0x800) exceeds L0A tensor of 1024 bytes");
    CHECK_HAS(mmad(MmadParams(128, 256, 32, 0, false, true)), "C [0, 0x20000) exceeds L0C tensor of 65536 bytes");
}

template <const FixpipeConfig& config>
static std::string fixpipe(FixpipeParamsArch3510<config.format> p, uint32_t from = 0, uint32_t to = 0)
{
    return run_aic([=] {
        Fixpipe<float, float, config>(LocalTensor<float>(TPosition::VECIN, to, 1024),
                                      LocalTensor<float>(TPosition::CO1, from, 4096), p);
    });
}

static void test_fixpipe()
{
    FixpipeParamsArch3510<CO2Layout::NZ> nz(32, 32, 32, 512);
    CHECK(fixpipe<kNzToUb>(nz) == "");
    CHECK_HAS(fixpipe<kNzToUb>(nz, 32), "source address 0x20 is not a multiple of 64");
    CHECK_HAS(fixpipe<kNzToUb>(nz, 0, 16), "destination address 0x10 is not a multiple of 32");
    nz.mSize = 33;
    CHECK_HAS(fixpipe<kNzToUb>(nz), "destination [0, 0x1040) exceeds UB tensor of 4096 bytes");
    nz.dualDstCtl = 1;
    CHECK_HAS(fixpipe<kNzToUb>(nz), "mSize with dualDstCtl 1 is 33, not a multiple of 2");
    nz.dualDstCtl = 2;
    CHECK_HAS(fixpipe<kNzToUb>(nz), "dualDstCtl is 2, allowed is 0..1");
    nz.nSize = 24;
    CHECK_HAS(fixpipe<kNzToUb>(nz), "nSize is 24, not a multiple of 16");
    nz.nSize = 32;
    nz.dualDstCtl = 0;
    nz.dstStride = 0;
    CHECK_HAS(fixpipe<kNzToUb>(nz), "dstStride is 0, allowed is 1..");
    FixpipeParamsArch3510<CO2Layout::ROW_MAJOR> rows(20, 32, 32, 20);
    CHECK_HAS(fixpipe<kRowsToUb>(rows), "nSize is 20, not a multiple of 8");
    rows.nSize = 24;
    rows.params.ndNum = 2;
    CHECK_HAS(fixpipe<kRowsToUb>(rows), "params.ndNum is 2; the twin offers 1 only");
}

// Only the checked variant knows which bytes were written.
static void test_poison()
{
    auto cube = [](uint16_t rows_loaded, MmadParams p) {
        return run_aic([=] {
            Fp8 tile(TPosition::A1, 0, 1024);
            DataCopy(tile, gm(g_codes), Nd2NzParams(1, rows_loaded, 64, 0, 64, 16, 1, 0));
            SetFlag<HardEvent::MTE2_MTE1>(0);
            WaitFlag<HardEvent::MTE2_MTE1>(0);
            LoadData(Fp8(TPosition::A2, 0, 1024), tile, LoadData2DParamsV2(0, 0, 1, 2, 1, 1, false, 0));
            LoadData(Fp8(TPosition::B2, 0, 1024), tile, LoadData2DParamsV2(0, 0, 1, 2, 1, 1, false, 0));
            SetFlag<HardEvent::MTE1_M>(0);
            WaitFlag<HardEvent::MTE1_M>(0);
            Mmad(LocalTensor<float>(TPosition::CO1, 0, 256), Fp8(TPosition::A2, 0, 1024), Fp8(TPosition::B2, 0, 1024),
                 p);
        });
    };
    CHECK(cube(12, MmadParams(12, 12, 64, 0, false, true)) == "");
    CHECK_HAS(cube(12, MmadParams(13, 12, 64, 0, false, true)), "AIC group 0, M, Mmad (test_checks.cpp:");
    CHECK_HAS(cube(12, MmadParams(13, 12, 64, 0, false, true)), "A byte 0x180 was never written");
    CHECK_HAS(cube(12, MmadParams(12, 16, 64, 0, false, true)), "B byte 0x180 was never written");
    CHECK_HAS(cube(12, MmadParams(12, 12, 64, 0, false, false)), "C byte 0 was never written");

    auto out = [](uint32_t bytes) {
        return run_aiv([=] {
            Ub tile(TPosition::VECIN, 0, 256);
            DataCopy(tile, gm(g_bytes), 96);
            SetFlag<HardEvent::MTE2_MTE3>(0);
            WaitFlag<HardEvent::MTE2_MTE3>(0);
            DataCopyPad(gm(g_bytes), tile, DataCopyExtParams(1, bytes, 0, 0, 0));
        });
    };
    CHECK(out(96) == "");
    CHECK_HAS(out(97), "AIV0 group 0, MTE3, DataCopyPad (test_checks.cpp:");
    CHECK_HAS(out(97), "source byte 0x60 was never written");
}

// Poison follows the bytes: L1 -> L0 and L0C -> UB and UB -> L1 -> L0 carry it along.
static void test_poison_travels()
{
    const std::string error = run([] {
        if ASCEND_IS_AIC {
            FixpipeParamsArch3510<CO2Layout::NZ> nz(16, 16, 16, 256);
            Fixpipe<float, float, kNzToUb>(LocalTensor<float>(TPosition::VECIN, 0, 256),
                                           LocalTensor<float>(TPosition::CO1, 0, 256), nz);
            CrossCoreSetFlag<4, PIPE_FIX>(0);
        } else if (GetSubBlockIdx() == 0) {
            CrossCoreWaitFlag<4, PIPE_MTE3>(0);
            DataCopyPad(gm(g_bytes), Ub(TPosition::VECIN, 0, 1024), DataCopyExtParams(1, 1024, 0, 0, 0));
        }
    });
    CHECK_HAS(error, "source byte 0 was never written");
    const std::string next_group = [] {  // what one group wrote does not count in the next
        twin::LaunchOptions options;
        options.groups = 2;
        options.host_threads = 1;
        return run_with(options, [] {
            if (!ASCEND_IS_AIV || GetSubBlockIdx() != 0) return;
            Ub tile(TPosition::VECIN, 0, 64);
            if (GetBlockIdx() == 0) DataCopy(tile, gm(g_bytes), 64);
            PipeBarrier<PIPE_ALL>();
            DataCopy(gm(g_bytes), tile, 64);
        });
    }();
    CHECK_HAS(next_group, "AIV0 group 1, MTE3, DataCopy");
}

__simd_vf__ inline void double_row(__ubuf__ float* to, __ubuf__ float* from, float factor)
{
    Reg::RegTensor<float> x;
    Reg::MaskReg all = Reg::CreateMask<float>();
    Reg::LoadAlign(x, from);
    Reg::Muls(x, x, factor, all);
    Reg::StoreAlign(to, x, all);
}

static std::string vector(uint32_t to, uint32_t from, uint32_t loaded_bytes)
{
    return run_aiv([=] {
        DataCopy(Ub(TPosition::VECIN, 0, 65536), gm(g_bytes), loaded_bytes);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        uint64_t ub = Ub(TPosition::VECIN, 0, 0).GetPhyAddr();
        asc_vf_call<double_row>((__ubuf__ float*)(ub + to), (__ubuf__ float*)(ub + from), 2.0f);
    });
}

static void test_vector_functions()
{
    CHECK(vector(1024, 64, 512) == "");
    const std::string error = vector(253952 - 128, 0, 512);
    CHECK_HAS(error, "AIV0 group 0, V, vector function double_row: StoreAlign");
    CHECK_HAS(error, "[0x3df80, 0x3e080) exceeds UB of 253952 bytes");
    CHECK_HAS(vector(1024, 16, 512), "LoadAlign address 0x10 is not a multiple of 32");
    CHECK_HAS(vector(1024, 512 - 32, 512), "LoadAlign [0x1e0, 0x2e0) reads UB byte 0x200, which nothing has written");
    CHECK_HAS(run_aic([] { asc_vf_call<double_row>((float*)nullptr, (float*)nullptr, 1.0f); }),
              "pipe V belongs to the AIVs");
    CHECK_HAS(run_aiv([] { double_row(nullptr, nullptr, 1.0f); }), "CreateMask outside of a vector function");
}

static void test_gm_ranges()
{
    std::vector<float> query(64, 1.0f), out(64, 0.0f);
    twin::LaunchOptions options;
    options.gm = {{reinterpret_cast<uint64_t>(query.data()), 256, "query", twin::GmUse::kRead},
                  {reinterpret_cast<uint64_t>(out.data()), 256, "out", twin::GmUse::kWrite}};
    auto copy = [&](GlobalTensor<float> from, GlobalTensor<float> to, uint32_t bytes) {
        return run_with(options, [=] {
            if (!ASCEND_IS_AIV || GetSubBlockIdx() != 0) return;
            LocalTensor<float> tile(TPosition::VECIN, 0, 64);
            DataCopyPad(tile, from, DataCopyExtParams(1, bytes, 0, 0, 0), DataCopyPadExtParams<float>());
            PipeBarrier<PIPE_ALL>();
            DataCopyPad(to, tile, DataCopyExtParams(1, bytes, 0, 0, 0));
        });
    };
    CHECK(copy(gm(query), gm(out), 256) == "");
    const std::string beyond = copy(gm(query)[61], gm(out), 16);
    CHECK_HAS(beyond, "AIV0 group 0, MTE2, DataCopyPad (test_checks.cpp:");
    CHECK_HAS(beyond, "source reads 16 bytes of GM that no tensor of the call owns");
    CHECK_HAS(beyond, "nearest is read-only tensor query of 256 bytes; the access begins at its byte 244");
    CHECK_HAS(copy(gm(query), gm(query), 16), "destination writes 16 bytes of GM that no tensor of the call owns");
    CHECK_HAS(copy(gm(query), gm(query), 16), "nearest is read-only tensor query");
    CHECK_HAS(copy(gm(out), gm(out), 16), "nearest is write-only tensor out");
    CHECK_HAS(run_with(options, [&] { gm(query).GetValue(64); }), "GlobalTensor::GetValue (test_checks.cpp:");
    CHECK_HAS(run_with(options, [&] { gm(query).SetValue(1, 0.0f); }), "the call writes 4 bytes of GM");
}

int main()
{
    test_tensors();
    test_load_data();
    test_nd2nz();
    test_block_copies();
    test_pad();
    test_fill();
    test_mmad();
    test_fixpipe();
    test_gm_ranges();
    test_vector_functions();
    test_poison();
    test_poison_travels();
    return finish();
}

// Race mode: what it reports and what it must not report; the adverse orders.
#include "check.h"
#include "engine/hostile.h"

using Fp8 = LocalTensor<fp8_e4m3fn_t>;
using Ub = LocalTensor<uint8_t>;
constexpr FixpipeConfig kNzToUb = {CO2Layout::NZ, true};

static std::vector<fp8_e4m3fn_t> g_codes(65536, {0x38});
static std::vector<uint8_t> g_bytes(65536, 1);
static std::vector<float> g_floats(16384, 1.0f);

static std::string race(std::function<void()> program, int groups = 1)
{
    twin::LaunchOptions options;
    options.race = true;
    options.groups = groups;
    options.host_threads = 1;
    options.names.buffers = {{twin::Memory::kL1, 0, 1024, 2, "tile"}};
    return run_with(options, std::move(program));
}
static std::string race_aic(std::function<void()> program)
{
    return race([&] {
        if ASCEND_IS_AIC
            program();
    });
}
static std::string race_aiv(std::function<void()> program)
{
    return race([&] {
        if (ASCEND_IS_AIV && GetSubBlockIdx() == 0) program();
    });
}

static void load_l1(uint32_t at) { DataCopy(Fp8(TPosition::A1, at, 1024), gm(g_codes), 1024); }
static void load_l0a(uint32_t at)
{
    LoadData(Fp8(TPosition::A2, 0, 1024), Fp8(TPosition::A1, at, 1024), LoadData2DParamsV2(0, 0, 2, 1, 2, 2, false, 0));
}
template <HardEvent event>
static void hand_over(int32_t id)
{
    SetFlag<event>(id);
    WaitFlag<event>(id);
}

static void test_between_pipes()
{
    const std::string raw = race_aic([] {
        load_l1(1024);
        load_l0a(1024);
    });
    CHECK_HAS(raw, "AIC group 0, MTE1, LoadData (test_race.cpp:");
    CHECK_HAS(raw,
              "race: source reads L1 [0x400, 0x800), and byte 0x400 (tile[1]) is also written by AIC group 0, MTE2, "
              "DataCopy (test_race.cpp:");
    CHECK_HAS(raw, "no flag orders the two");
    CHECK(race_aic([] {
              load_l1(0);
              hand_over<HardEvent::MTE2_MTE1>(0);
              load_l0a(0);
              hand_over<HardEvent::MTE1_MTE2>(0);
              load_l1(0);
          }) == "");
    CHECK_HAS(race_aic([] {
                  load_l1(0);
                  hand_over<HardEvent::MTE2_MTE1>(0);
                  load_l0a(0);
                  PipeBarrier<PIPE_MTE2>();
                  load_l1(0);
              }),
              "and byte 0 (tile[0]) is also read by AIC group 0, MTE1, LoadData");
    CHECK(race_aic([] {  // a flag that is set too early
              SetFlag<HardEvent::MTE2_MTE1>(0);
              load_l1(0);
              WaitFlag<HardEvent::MTE2_MTE1>(0);
              load_l0a(0);
          }) != "");
    CHECK(race_aic([] {
              load_l1(0);
              PipeBarrier<PIPE_ALL>();
              load_l0a(0);
          }) == "");
    CHECK(race_aic([] {  // through the program
              load_l1(0);
              hand_over<HardEvent::MTE2_S>(0);
              load_l0a(0);
          }) == "");
}

static void test_inside_a_pipe()
{
    const std::string overtaken = race_aic([] {
        load_l1(0);
        load_l1(512);
    });
    CHECK_HAS(overtaken, "destination writes L1 [0x200, 0x600), and byte 0x200 (tile[0]) is also written by");
    CHECK_HAS(overtaken, "two such accesses of one pipe need PipeBarrier<PIPE_MTE2>");
    CHECK(race_aic([] {
              load_l1(0);
              PipeBarrier<PIPE_MTE2>();
              load_l1(512);
          }) == "");
    CHECK(race_aic([] {
              load_l1(0);
              load_l1(1024);
          }) == "");
    auto store_twice = [](bool barrier) {
        return race_aiv([=] {
            DataCopy(Ub(TPosition::VECIN, 0, 64), gm(g_bytes), 64);
            hand_over<HardEvent::MTE2_MTE3>(0);
            DataCopy(gm(g_bytes)[4096], Ub(TPosition::VECIN, 0, 64), 64);
            if (barrier) PipeBarrier<PIPE_MTE3>();
            DataCopy(gm(g_bytes)[4128], Ub(TPosition::VECIN, 0, 64), 64);
        });
    };
    CHECK_HAS(store_twice(false), "two such accesses of one pipe need PipeBarrier<PIPE_MTE3>");
    CHECK(store_twice(true) == "");
}

// Mmads that accumulate in few fractals overtake each other, in many they do not.
static std::string accumulate(uint16_t n, bool barrier)
{
    return race_aic([=] {
        for (uint32_t at = 0; at < 8192; at += 1024) load_l1(at);
        hand_over<HardEvent::MTE2_MTE1>(0);
        LoadData(Fp8(TPosition::A2, 0, 512), Fp8(TPosition::A1, 0, 512),
                 LoadData2DParamsV2(0, 0, 1, 1, 1, 1, false, 0));
        LoadData(Fp8(TPosition::B2, 0, 8192), Fp8(TPosition::A1, 0, 8192),
                 LoadData2DParamsV2(0, 0, 16, 1, 16, 16, false, 0));
        hand_over<HardEvent::MTE1_M>(0);
        LocalTensor<float> c(TPosition::CO1, 0, 16u * n);
        MmadParams p(16, n, 32, 0, false, true);
        Mmad(c, Fp8(TPosition::A2, 0, 512), Fp8(TPosition::B2, 0, 8192), p);
        if (barrier) PipeBarrier<PIPE_M>();
        p.cmatrixInitVal = false;
        Mmad(c, Fp8(TPosition::A2, 0, 512), Fp8(TPosition::B2, 0, 8192), p);
    });
}

static void test_mmads()
{
    CHECK_HAS(accumulate(144, false), "two such accesses of one pipe need PipeBarrier<PIPE_M>");
    CHECK(accumulate(144, true) == "");
    CHECK(accumulate(160, false) == "");
}

// The AIC stores scores into `slots` slots of UB; AIV0 reads them and gives back `credits` of them beforehand.
static std::string scores(int credits)
{
    return race([=] {
        const int rounds = 6, slots = 2;
        if ASCEND_IS_AIC {
            LocalTensor<float> c(TPosition::CO1, 0, 256);
            for (uint32_t at = 0; at < 2048; at += 1024) load_l1(at);
            hand_over<HardEvent::MTE2_MTE1>(0);
            load_l0a(0);
            LoadData(Fp8(TPosition::B2, 0, 1024), Fp8(TPosition::A1, 0, 1024),
                     LoadData2DParamsV2(0, 0, 2, 1, 2, 2, false, 0));
            hand_over<HardEvent::MTE1_M>(0);
            Mmad(c, Fp8(TPosition::A2, 0, 512), Fp8(TPosition::B2, 0, 512), MmadParams(16, 16, 32, 0, false, true));
            hand_over<HardEvent::M_FIX>(0);
            for (int i = 0; i < rounds; ++i) {
                CrossCoreWaitFlag<4, PIPE_FIX>(1);
                FixpipeParamsArch3510<CO2Layout::NZ> nz(16, 16, 16, 256);
                Fixpipe<float, float, kNzToUb>(LocalTensor<float>(TPosition::VECIN, i % slots * 1024, 256), c, nz);
                CrossCoreSetFlag<4, PIPE_FIX>(0);
            }
            for (int i = 0; i < credits; ++i) CrossCoreWaitFlag<4, PIPE_FIX>(1);
        } else if (GetSubBlockIdx() == 0) {
            for (int i = 0; i < credits; ++i) CrossCoreSetFlag<4, PIPE_MTE3>(1);
            for (int i = 0; i < rounds; ++i) {
                CrossCoreWaitFlag<4, PIPE_MTE3>(0);
                DataCopy(gm(g_floats)[i * 256], LocalTensor<float>(TPosition::VECIN, i % slots * 1024, 256), 256);
                CrossCoreSetFlag<4, PIPE_MTE3>(1);
            }
        }
    });
}

static void test_credits()
{
    CHECK(scores(1) == "");
    CHECK(scores(2) == "");
    const std::string error = scores(3);
    CHECK_HAS(error, "race: ");
    CHECK_HAS(error, "no flag orders the two");
}

static void test_gm()
{
    auto write = [](uint32_t bytes_apart) {
        return race(
            [=] {
                if (!ASCEND_IS_AIV || GetSubBlockIdx() != 0) return;
                Ub tile(TPosition::VECIN, 0, 64);
                DataCopy(tile, gm(g_bytes), 64);
                hand_over<HardEvent::MTE2_MTE3>(0);
                DataCopyPad(gm(g_bytes)[4096 + uint32_t(GetBlockIdx()) / 2 * bytes_apart], tile,
                            DataCopyExtParams(1, 7, 0, 0, 0));
            },
            2);
    };
    CHECK(write(7) == "");
    CHECK_HAS(write(6), "AIV0 group 0, MTE3, DataCopyPad (test_race.cpp:");
    CHECK_HAS(write(6), "nothing orders two groups of a launch");
    CHECK_HAS(race_aiv([] {
                  Ub tile(TPosition::VECIN, 0, 64);
                  DataCopy(tile, gm(g_bytes), 64);
                  hand_over<HardEvent::MTE2_MTE3>(0);
                  DataCopy(gm(g_bytes)[4096], tile, 64);
                  gm(g_bytes).SetValue(4100, 3);
              }),
              "race: ");
    CHECK(race_aiv([] {
              Ub tile(TPosition::VECIN, 0, 64);
              gm(g_bytes).SetValue(4100, 3);
              gm(g_bytes).GetValue(4100);
              DataCopy(tile, gm(g_bytes)[4096], 64);
          }) == "");
}

__simd_vf__ inline void double_twice(__ubuf__ float* to, __ubuf__ float* from, uint16_t fences)
{
    Reg::RegTensor<float> x;
    Reg::MaskReg all = Reg::CreateMask<float>();
    Reg::LoadAlign(x, from);
    Reg::Adds(x, x, 1.0f, all);
    Reg::StoreAlign(to, x, all);
    for (uint16_t i = 0; i < fences; ++i) Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_LOAD>();
    Reg::LoadAlign(x, to);
    Reg::StoreAlign(to, x, all);
}

// Stores y to where x came from.
__simd_vf__ inline void replace(__ubuf__ float* place, uint16_t fences)
{
    Reg::RegTensor<float> x, y;
    Reg::MaskReg all = Reg::CreateMask<float>();
    Reg::LoadAlign(x, place);
    Reg::Duplicate(y, 2.0f);
    for (uint16_t i = 0; i < fences; ++i) Reg::LocalMemBar<Reg::MemType::VEC_LOAD, Reg::MemType::VEC_STORE>();
    Reg::StoreAlign(place, y, all);
}

// Adds y to where x came from: through a value made of both loads, which is ready after them; of one of them only.
template <bool both>
__simd_vf__ inline void add_in_place(__ubuf__ float* place, uint16_t)
{
    Reg::RegTensor<float> x, y, sum;
    Reg::MaskReg all = Reg::CreateMask<float>();
    Reg::LoadAlign(x, place);
    Reg::LoadAlign(y, place);
    Reg::Duplicate(sum, 1.0f);
    Reg::Reduce<Reg::ReduceType::SUM>(x, x, all);
    Reg::Duplicate(x, x, all);
    if constexpr (both) {
        Reg::Add(sum, x, y, all);
    } else {
        Reg::Adds(sum, x, 1.0f, all);
    }
    Reg::StoreAlign(place, sum, all);
}

// Stores twice to one place, from one register or from two.
template <bool two>
__simd_vf__ inline void store_twice(__ubuf__ float* place, uint16_t fences)
{
    Reg::RegTensor<float> x, y;
    Reg::MaskReg all = Reg::CreateMask<float>(), few = Reg::CreateMask<float, Reg::MaskPattern::VL8>();
    Reg::Duplicate(x, 1.0f);
    Reg::Duplicate(y, 2.0f);
    Reg::LocalMemBar<Reg::MemType::VEC_LOAD, Reg::MemType::VEC_STORE>();
    Reg::StoreAlign(place, x, all);
    for (uint16_t i = 0; i < fences; ++i) Reg::LocalMemBar<Reg::MemType::VEC_STORE, Reg::MemType::VEC_STORE>();
    Reg::StoreAlign(place, two ? y : x, few);
}

template <auto function>
static std::string in_place(uint16_t fences)
{
    return race_aiv([=] {
        LocalTensor<float> tile(TPosition::VECIN, 0, 64);
        DataCopy(tile, gm(g_floats), 64);
        hand_over<HardEvent::MTE2_V>(0);
        asc_vf_call<function>((__ubuf__ float*)tile.GetPhyAddr(), fences);
    });
}

static std::string vector(bool flag, uint16_t fences)
{
    return race_aiv([=] {
        LocalTensor<float> in(TPosition::VECIN, 0, 64), out(TPosition::VECIN, 256, 64);
        DataCopy(in, gm(g_floats), 64);
        hand_over<HardEvent::MTE2_V>(0);
        asc_vf_call<double_twice>((__ubuf__ float*)out.GetPhyAddr(), (__ubuf__ float*)in.GetPhyAddr(), fences);
        if (flag) hand_over<HardEvent::V_MTE3>(0);
        DataCopy(gm(g_floats)[4096], out, 64);
    });
}

static void test_vector_functions()
{
    CHECK(vector(true, 1) == "");
    CHECK_HAS(vector(false, 1), "is also written by AIV0 group 0, V, vector function double_twice; no flag orders");
    CHECK_HAS(vector(true, 0), "LocalMemBar<VEC_STORE, VEC_LOAD> must stand between");
    const std::string overtaken = "has loaded to another register; LocalMemBar<VEC_LOAD, VEC_STORE> must stand between";
    CHECK(in_place<replace>(1) == "");
    CHECK_HAS(in_place<replace>(0), overtaken);
    CHECK(in_place<add_in_place<true>>(0) == "");
    CHECK_HAS(in_place<add_in_place<false>>(0), overtaken);
    CHECK(in_place<store_twice<false>>(0) == "");
    CHECK(in_place<store_twice<true>>(1) == "");
    CHECK_HAS(in_place<store_twice<true>>(0),
              "has stored from another register; LocalMemBar<VEC_STORE, VEC_STORE> must stand between");
}

// A hand-over without its flag gives other bits in one of the two orders; with it, the same.
static std::vector<uint8_t> pass_on(const twin::Order& order, bool flags)
{
    std::vector<uint8_t> in(1024), out(1024, 0);
    for (size_t i = 0; i < in.size(); ++i) in[i] = uint8_t(i / 64);
    twin::LaunchOptions options;
    options.order = &order;
    twin::launch(options, [&] {
        if (!ASCEND_IS_AIV || GetSubBlockIdx() != 0) return;
        Ub tile(TPosition::VECIN, 0, 64);
        DataCopy(tile, gm(in)[512], 64);
        PipeBarrier<PIPE_ALL>();
        for (uint32_t i = 0; i < 16; ++i) {
            if (i > 0 && flags) WaitFlag<HardEvent::MTE3_MTE2>(0);
            DataCopy(tile, gm(in)[i * 64], 64);
            if (flags) hand_over<HardEvent::MTE2_MTE3>(0);
            DataCopy(gm(out)[i * 64], tile, 64);
            if (i < 15 && flags) SetFlag<HardEvent::MTE3_MTE2>(0);
        }
    });
    return out;
}

static void test_orders()
{
    const twin::ConsumersFirst consumers;
    const twin::ProducersFirst producers;
    CHECK(pass_on(consumers, true) == pass_on(producers, true));
    CHECK(pass_on(consumers, false) != pass_on(producers, false));
}

// Transfers that no barrier separates complete the other way round.
static void test_delayed_transfers()
{
    auto second_wins = [](bool barrier) {
        std::vector<uint8_t> ones(64, 1), twos(64, 2), out(64, 0);
        const twin::ProducersFirst producers;
        twin::LaunchOptions options;
        options.order = &producers;
        CHECK(run_with(options, [&] {
                  if (!ASCEND_IS_AIV || GetSubBlockIdx() != 0) return;
                  Ub tile(TPosition::VECIN, 0, 64);
                  DataCopy(tile, gm(ones), 64);
                  if (barrier) PipeBarrier<PIPE_MTE2>();
                  DataCopy(tile, gm(twos), 64);
                  hand_over<HardEvent::MTE2_MTE3>(0);
                  DataCopy(gm(out), tile, 64);
              }) == "");
        return out == twos;
    };
    CHECK(second_wins(true));
    CHECK(!second_wins(false));
}

int main()
{
    test_between_pipes();
    test_inside_a_pipe();
    test_mmads();
    test_credits();
    test_gm();
    test_vector_functions();
    test_orders();
    test_delayed_transfers();
    return finish();
}

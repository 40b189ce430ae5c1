// Tiny programs whose time can be worked out by hand. Costs are round numbers, different ones for different things.
#include <initializer_list>

#include "../twin/check.h"
#include "clock/clock.h"

using twin::clock::Costs;
using twin::clock::Timeline;

namespace {

const twin::clock::Chip kChip = {"test", 2, 1000, 50, 1 << 20};

Costs round_costs()
{
    Costs costs;
    costs.scalar_call = 1;
    costs.scalar_read = 7;
    costs.flag = 100;
    costs.cross_flag = 1000;
    costs.mmad_call = 10;
    costs.mmad_latency = 500;
    costs.load_data_call = 30;
    costs.fixpipe_call = 40;
    costs.copy_call = 50;
    costs.l2_latency = 2000;
    costs.hbm_latency = 5000;
    costs.vector_call = 3;
    costs.vector_stretch = 2;
    return costs;
}

struct Timed {
    Timeline timeline;
    std::string json;
};

Timed time_it(int groups, const Costs& costs, std::function<void()> program)
{
    twin::clock::Recorder recorder(groups, costs);
    twin::LaunchOptions options;
    options.groups = groups;
    options.host_threads = 1;
    options.observer = &recorder;
    const std::string error = run_with(options, std::move(program));
    CHECK(error == "");
    if (!error.empty()) std::printf("%s\n", error.c_str());
    Timed result{twin::clock::Simulation(kChip, costs, recorder.programs(), groups).run(), ""};
    result.json = twin::clock::Report(kChip, result.timeline, recorder.sites()).json();
    return result;
}
Timed time_aic(const Costs& costs, std::function<void()> program)
{
    return time_it(1, costs, [&] {
        if ASCEND_IS_AIC
            program();
    });
}

std::vector<fp8_e4m3fn_t> zeros(64 * 1024, fp8_e4m3fn_t{0});

LocalTensor<fp8_e4m3fn_t> l1() { return {TPosition::A1, 0, 64 * 1024}; }
LocalTensor<fp8_e4m3fn_t> l0a() { return {TPosition::A2, 0, 32 * 1024}; }
LocalTensor<fp8_e4m3fn_t> l0b() { return {TPosition::B2, 0, 32 * 1024}; }
LocalTensor<float> l0c() { return {TPosition::CO1, 0, 16 * 1024}; }

// 32 bytes of L1 by Fill, so that LoadData has something to read.
void fill_l1(uint32_t bytes)
{
    Fill(l1().ReinterpretCast<uint16_t>(), InitConstValueParams<uint16_t>(1, uint16_t(bytes / 32), 0, 0));
}
void load(const LocalTensor<fp8_e4m3fn_t>& to, uint16_t rows, uint16_t columns)
{
    LoadData2DParamsV2 p;
    p.mStep = rows / 16;
    p.kStep = columns / 32;
    p.srcStride = p.dstStride = rows / 16;
    LoadData(to, l1(), p);
}

// Waits of the cube are for the flag: scalar calls 1..4, Fill 50 + 16384 / 128, LoadData 30 + 16384 / 256 twice,
// Mmad 8 * 8 * 4 + 10.
void test_flags_carry_their_time()
{
    const Timed timed = time_aic(round_costs(), [] {
        fill_l1(16384);
        SetFlag<HardEvent::MTE2_MTE1>(0);
        WaitFlag<HardEvent::MTE2_MTE1>(0);
        load(l0a(), 128, 128);
        load(l0b(), 128, 128);
        SetFlag<HardEvent::MTE1_M>(1);
        WaitFlag<HardEvent::MTE1_M>(1);
        Mmad(l0c(), l0a(), l0b(), MmadParams(128, 128, 128, 0, false, true));
    });
    const auto& aic = timed.timeline.groups[0][0];
    const int64_t filled = 1 + 50 + 16384 / 128;
    const int64_t loaded = filled + 100 + 2 * (30 + 16384 / 256);
    const int64_t multiplied = loaded + 100 + 8 * 8 * 4 + 10;
    CHECK(aic.end == multiplied + 500);
    CHECK(timed.timeline.cycles == aic.end);
    CHECK(aic.busy[1] == 266 && aic.busy[2] == 2 * 94 && aic.busy[3] == 178);
    CHECK(aic.busy[twin::clock::kScalar] == 8);
    CHECK_HAS(timed.json, "WaitFlag MTE1_M 1");
    CHECK_HAS(timed.json, "\"source\": \"model\"");
}

// Rows of less than 16 cost as much as 16, columns of k as 32.
void test_products_are_rounded_up_to_fractals()
{
    const auto busy = [](uint16_t m, uint16_t n, uint16_t k) {
        return time_aic(round_costs(),
                        [=] {
                            fill_l1(16384);
                            PipeBarrier<PIPE_ALL>();
                            load(l0a(), 64, 64);
                            load(l0b(), 64, 64);
                            PipeBarrier<PIPE_ALL>();
                            Mmad(l0c(), l0a(), l0b(), MmadParams(m, n, k, 0, false, true));
                        })
            .timeline.groups[0][0]
            .busy[1];
    };
    CHECK(busy(2, 1, 1) == 1 + 10);
    CHECK(busy(17, 33, 32) == 2 * 3 + 10);
    CHECK(busy(64, 64, 33) == 4 * 4 * 2 + 10);
}

// Two slots let loads run beside products; one makes them take turns.
void test_double_buffering_pays()
{
    const auto cycles = [](int slots) {
        return time_aic(round_costs(),
                        [=] {
                            fill_l1(16384);
                            PipeBarrier<PIPE_ALL>();
                            for (int i = 0; i < slots; ++i) SetFlag<HardEvent::M_MTE1>(i);
                            for (int i = 0; i < 8; ++i) {
                                WaitFlag<HardEvent::M_MTE1>(i % slots);
                                load(l0a()[i % slots * 16384], 128, 128);
                                load(l0b()[i % slots * 16384], 128, 128);
                                SetFlag<HardEvent::MTE1_M>(i % slots);
                                WaitFlag<HardEvent::MTE1_M>(i % slots);
                                Mmad(l0c(), l0a()[i % slots * 16384], l0b()[i % slots * 16384],
                                     MmadParams(128, 128, 128, 0, false, true));
                                SetFlag<HardEvent::M_MTE1>(i % slots);
                            }
                            for (int i = 0; i < slots; ++i) WaitFlag<HardEvent::M_MTE1>(i);
                        })
            .timeline.cycles;
    };
    CHECK(cycles(2) < cycles(1));
    // Alone, a step is: loads, flag, product with its latency, flag.
    CHECK(cycles(1) - cycles(2) > 7 * (2 * 94) - 100);
}

// The scalar unit stops where 32 calls of a pipe wait; the engine's own queues are as deep.
void test_the_queue_holds_the_scalar_unit()
{
    const auto load_begins = [](int fills) {
        const Timed timed = time_aic(round_costs(), [=] {
            for (int i = 0; i < fills; ++i) fill_l1(128);
            load(l0a(), 16, 32);
        });
        for (const twin::clock::Span& span : timed.timeline.groups[0][0].spans) {
            if (span.track == 2) return span.begin;
        }
        return int64_t(-1);
    };
    CHECK(load_begins(20) == 21);
    // A Fill takes 51 cycles. Number 40 is issued when number 8 starts, and the LoadData behind it a cycle later.
    CHECK(load_begins(40) == 1 + 7 * 51 + 2);
}

// 64 KiB each: 50 + 655.36 on the path of the core and, from HBM, its share of 100 bytes a cycle.
void test_hbm_is_shared_and_l2_is_not()
{
    std::vector<fp8_e4m3fn_t> data(3 * 65536, fp8_e4m3fn_t{0});
    const uint64_t first = (reinterpret_cast<uint64_t>(data.data()) + 511) / 512 * 512;
    const auto read = [&](int64_t group) {
        GlobalTensor<fp8_e4m3fn_t> source;
        source.SetGlobalBuffer(reinterpret_cast<fp8_e4m3fn_t*>(first + group * 65536));
        DataCopy(l1(), source, DataCopyParams(1, 2048, 0, 0));
    };
    const auto cycles = [&](int groups, int64_t stride, int times) {
        const Timed timed = time_it(groups, round_costs(), [&] {
            if ASCEND_IS_AIC {
                for (int i = 0; i < times; ++i) read(GetBlockIdx() * stride);
            }
        });
        return timed.timeline;
    };
    CHECK(cycles(1, 0, 1).cycles == 1 + 50 + 656 + 5000);
    CHECK(cycles(2, 1, 1).cycles == 1 + 50 + 1311 + 5000);  // both miss: 131072 bytes at 100
    CHECK(cycles(2, 1, 1).hbm_bytes == 131072);
    CHECK(cycles(2, 0, 1).hbm_bytes == 65536);  // the same bytes: one of them misses
    const Timeline again = cycles(1, 0, 2);
    CHECK(again.hbm_bytes == 65536 && again.l2_bytes == 131072);
    CHECK(again.cycles == 1 + 50 + 656 + 5000);  // the second hits L2 and is over before the first
}

using F32 = Reg::RegTensor<float>;

// 3 instructions a register, 2 of them single-issue: the latter decide.
__simd_vf__ inline void copy_registers(__ubuf__ float* from, uint16_t registers)
{
    Reg::MaskReg all = Reg::CreateMask<float, Reg::MaskPattern::ALL>();
    for (uint16_t i = 0; i < registers; ++i) {
        F32 even, odd;
        Reg::LoadAlign<float, Reg::LoadDist::DIST_DINTLV_B32>(even, odd, from + i * 128);
        Reg::StoreAlign(from + i * 128, even, all);
        Reg::Add(even, even, odd, all);
    }
}
// 16-lane functions: four cycles, two units.
__simd_vf__ inline void exponentials(uint16_t registers)
{
    Reg::MaskReg all = Reg::CreateMask<float, Reg::MaskPattern::ALL>();
    F32 x;
    Reg::Duplicate(x, 0.0f);
    for (uint16_t i = 0; i < registers; ++i) Reg::Exp(x, x, all);
}
// Nothing but additions: two a cycle.
__simd_vf__ inline void additions(uint16_t registers)
{
    Reg::MaskReg all = Reg::CreateMask<float, Reg::MaskPattern::ALL>();
    F32 x;
    Reg::Duplicate(x, 0.0f);
    for (uint16_t i = 0; i < registers; ++i) Reg::Add(x, x, x, all);
}

template <class Body>
int64_t vector_busy(const Costs& costs, Body body)
{
    const Timed timed = time_it(1, costs, [&] {
        if (ASCEND_IS_AIV && GetSubBlockIdx() == 0) {
            LocalTensor<float> tile(TPosition::VECIN, 0, 4096);
            std::vector<float>& source = *new std::vector<float>(4096);
            DataCopy(tile, gm(source), 4096);
            SetFlag<HardEvent::MTE2_V>(0);
            WaitFlag<HardEvent::MTE2_V>(0);
            body(reinterpret_cast<float*>(tile.GetPhyAddr()));
        }
    });
    return timed.timeline.groups[0][1].busy[0];
}

void test_vector_functions()
{
    const Costs costs = round_costs();
    CHECK(vector_busy(costs, [](float* p) { asc_vf_call<copy_registers>(p, uint16_t(20)); }) == 3 + 2 * 40);
    CHECK(vector_busy(costs, [](float*) { asc_vf_call<exponentials>(uint16_t(20)); }) == 3 + 2 * 40);
    CHECK(vector_busy(costs, [](float*) { asc_vf_call<additions>(uint16_t(20)); }) == 3 + 2 * 11);
    Costs narrow = costs;
    narrow.register_writes = true;  // 3 registers a round: 30 cycles, below the 40 of single issue
    CHECK(vector_busy(narrow, [](float* p) { asc_vf_call<copy_registers>(p, uint16_t(20)); }) == 3 + 2 * 40);
}

// Credits: two are there, the third comes when the AIC's first LoadData is over.
void test_cross_flags_count()
{
    const Timed timed = time_it(1, round_costs(), [] {
        if ASCEND_IS_AIC {
            fill_l1(512);
            CrossCoreSetFlag<4, PIPE_MTE2>(2);
            CrossCoreSetFlag<4, PIPE_MTE2>(2 + 16);
        }
        if ASCEND_IS_AIV {
            CrossCoreWaitFlag<4, PIPE_V>(2);
            asc_vf_call<additions>(uint16_t(20));
        }
    });
    const int64_t filled = 1 + 50 + 512 / 128;
    CHECK(timed.timeline.groups[0][1].end == filled + 1000 + 25);
    CHECK(timed.timeline.groups[0][2].end == filled + 1000 + 25);
    CHECK_HAS(timed.json, "CrossCoreWaitFlag V 2");
}

// Scalar reads, and PIPE_ALL, hold the scalar unit.
void test_scalar_unit()
{
    std::vector<int32_t> words(16, 0);
    const Timed timed = time_aic(round_costs(), [&] {
        for (int i = 0; i < 3; ++i) gm(words).GetValue(i);
        fill_l1(512);
        PipeBarrier<PIPE_ALL>();
        fill_l1(512);
    });
    CHECK(timed.timeline.groups[0][0].end == (3 * 7 + 1 + 54) + 1 + 1 + 54);
}

// The second launch begins when the slower of two groups has ended the first.
void test_launches_follow_each_other()
{
    twin::clock::Recorder recorder(2, round_costs());
    twin::LaunchOptions options;
    options.groups = 2;
    options.host_threads = 1;
    options.observer = &recorder;
    const auto fills = [&](int of_group_1) {
        return run_with(options, [=] {
            if ASCEND_IS_AIC {
                for (int i = 0; i < (GetBlockIdx() == 1 ? of_group_1 : 1); ++i) fill_l1(512);
            }
        });
    };
    CHECK(fills(3) == "");
    recorder.next_launch();
    CHECK(fills(1) == "");
    const Timeline timeline = twin::clock::Simulation(kChip, round_costs(), recorder.programs()).run();
    CHECK(timeline.cycles == (1 + 3 * 54) + (1 + 54));
    CHECK(timeline.launch_ends == std::vector<int64_t>{1 + 3 * 54});
    CHECK(timeline.groups[0][0].end == timeline.groups[1][0].end);
}

void test_same_times_again()
{
    const auto run_once = [] {
        return time_it(2, Costs(),
                       [] {
                           if ASCEND_IS_AIC {
                               for (int i = 0; i < 10; ++i) DataCopy(l1(), gm(zeros), DataCopyParams(1, 1024, 0, 0));
                           }
                       })
            .json;
    };
    CHECK(run_once() == run_once());
}

void test_unknown_chip()
{
    try {
        twin::clock::find_chip("910B");
        CHECK(false);
    } catch (const twin::Error& e) {
        CHECK_HAS(e.what(), "950PR, 950DT, 950DT36");
    }
}

}  // namespace

int main()
{
    test_flags_carry_their_time();
    test_products_are_rounded_up_to_fractals();
    test_double_buffering_pays();
    test_the_queue_holds_the_scalar_unit();
    test_hbm_is_shared_and_l2_is_not();
    test_vector_functions();
    test_cross_flags_count();
    test_scalar_unit();
    test_launches_follow_each_other();
    test_same_times_again();
    test_unknown_chip();
    return finish();
}

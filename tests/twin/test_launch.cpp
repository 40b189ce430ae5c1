// Long programs, many groups, host threads, observers, and errors among them.
#include <sys/resource.h>

#include <set>

#include "check.h"

static long peak_kib()
{
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

// A million instructions that flow through all pipes of the AIC and both AIVs.
static void long_program(int rounds)
{
    CHECK(run([=] {
              for (int i = 0; i < rounds; ++i) {
                  if ASCEND_IS_AIC {
                      SetFlag<HardEvent::MTE2_MTE1>(0);
                      WaitFlag<HardEvent::MTE2_MTE1>(0);
                      SetFlag<HardEvent::MTE1_MTE2>(0);
                      WaitFlag<HardEvent::MTE1_MTE2>(0);
                      CrossCoreSetFlag<4, PIPE_MTE1>(0);
                      CrossCoreSetFlag<4, PIPE_MTE1>(16);
                      CrossCoreWaitFlag<4, PIPE_MTE2>(1);
                      CrossCoreWaitFlag<4, PIPE_MTE2>(17);
                  } else {
                      CrossCoreWaitFlag<4, PIPE_V>(0);
                      CrossCoreSetFlag<4, PIPE_V>(1);
                  }
              }
          }) == "");
}

static void test_streaming()
{
    long_program(100);
    const long before = peak_kib();
    long_program(100000);  // 1,200,000 instructions
    CHECK(peak_kib() - before < 1024);
}

// Every group sums its numbers in UB; results do not depend on the number of host threads.
static std::vector<float> run_groups(int groups, int host_threads)
{
    std::vector<float> in(groups * 64), out(groups * 64, 0.0f);
    for (size_t i = 0; i < in.size(); ++i) in[i] = float(i);
    twin::LaunchOptions options;
    options.groups = groups;
    options.host_threads = host_threads;
    CHECK(run_with(options, [&] {
              if ASCEND_IS_AIC {
                  CHECK(GetBlockIdx() < groups && GetBlockNum() == groups);
                  return;
              }
              const uint32_t at = uint32_t(GetBlockIdx()) * 32;
              LocalTensor<float> tile(TPosition::VECIN, 64, 32);
              DataCopy(tile, gm(in)[at], 32);
              SetFlag<HardEvent::MTE2_MTE3>(0);
              WaitFlag<HardEvent::MTE2_MTE3>(0);
              DataCopy(gm(out)[at], tile, 32);
          }) == "");
    return out;
}

static void test_groups()
{
    const std::vector<float> one = run_groups(37, 1);
    for (size_t i = 0; i < one.size(); ++i) CHECK(one[i] == float(i));
    CHECK(run_groups(37, 3) == one);
    CHECK(run_groups(37, 0) == one);
    twin::LaunchOptions options;
    options.groups = 2;
    options.host_threads = 9;
    CHECK(twin::launch(options, [] {}).host_threads == 2);  // never more threads than groups
}

static void test_error_among_groups()
{
    std::atomic<int> started{0};
    twin::LaunchOptions options;
    options.groups = 2000;
    options.host_threads = 3;
    const std::string error = run_with(options, [&] {
        if ASCEND_IS_AIC {
            ++started;
            if (GetBlockIdx() == 5) SetFlag<HardEvent::MTE1_M>(9);
            CrossCoreWaitFlag<4, PIPE_S>(0);  // leaves programs in the middle, to be unwound
            CrossCoreWaitFlag<4, PIPE_S>(16);
        } else {
            CrossCoreSetFlag<4, PIPE_V>(0);
        }
    });
    CHECK_HAS(error, "AIC group 5, MTE1, SetFlag (test_launch.cpp:");
    CHECK(started < 2000);
}

// Programs that are left in the middle are unwound: objects on their stacks are destroyed.
static void test_unwinding()
{
    auto counted = std::make_shared<int>(0);
    const std::string error = run([&] {
        auto held = counted;
        if ASCEND_IS_AIC {
            WaitFlag<HardEvent::M_S>(0);
        } else if (GetSubBlockIdx() == 1) {
            throw std::runtime_error("a program may throw");
        } else {
            PipeBarrier<PIPE_V>();
        }
    });
    CHECK(error == "a program may throw");
    CHECK(counted.use_count() == 1);
    CHECK_HAS(run([] { std::vector<int>().at(1); }), "range_check");
}

class CountStores final : public twin::Observer {
public:
    void executed(const twin::Core& core, const twin::Instruction& instruction) override
    {
        seen.insert(core.describe() + " " + instruction.call.name);
        for (int i = 0; i < instruction.accesses; ++i) {
            const twin::Access& access = instruction.access[i];
            if (access.write && access.region.memory == twin::Memory::kGm)
                bytes += access.hull_end() - access.hull_begin();
        }
    }
    std::set<std::string> seen;
    uint64_t bytes = 0;
};

static void test_observer()
{
    std::vector<uint8_t> data(256, 3);
    CountStores observer;
    twin::LaunchOptions options;
    options.host_threads = 1;
    options.observer = &observer;
    CHECK(run_with(options, [&] {
              if (ASCEND_IS_AIV && GetSubBlockIdx() == 1) {
                  LocalTensor<uint8_t> tile(TPosition::VECIN, 0, 256);
                  DataCopy(tile, gm(data), 128);
                  PipeBarrier<PIPE_ALL>();
                  DataCopy(gm(data)[128], tile, 64);
              }
          }) == "");
    CHECK(observer.bytes == 64);
    CHECK(observer.seen == std::set<std::string>{"AIV1 group 0 DataCopy"});
}

// The other end of the freedom that flags leave: the youngest ready head of the last core first. Same result.
class YoungestFirst final : public twin::Order {
public:
    twin::Head next(twin::Group& group) const override
    {
        for (int c = twin::kCores - 1; c >= 0; --c) {
            twin::Head best;
            for (int q = 0; q < twin::kPipes; ++q) {
                twin::Core& core = group.core[c];
                if (!core.head_is_ready(q)) continue;
                if (!best.core || core.queue[q].front().sequence > core.queue[best.queue].front().sequence) {
                    best = {&core, q};
                }
            }
            if (best.core) return best;
        }
        return {};
    }
};

static void test_order()
{
    const YoungestFirst order;
    std::vector<int32_t> in(64), out(64, 0);
    for (int i = 0; i < 64; ++i) in[i] = i;
    twin::LaunchOptions options;
    options.order = &order;
    CHECK(run_with(options, [&] {
              if (!ASCEND_IS_AIV || GetSubBlockIdx() != 0) return;
              for (uint32_t i = 0; i < 8; ++i) {
                  LocalTensor<int32_t> tile(TPosition::VECIN, i % 2 * 32, 8);
                  if (i > 1) WaitFlag<HardEvent::MTE3_MTE2>(i % 2);
                  DataCopy(tile, gm(in)[i * 8], 8);
                  SetFlag<HardEvent::MTE2_MTE3>(i % 2);
                  WaitFlag<HardEvent::MTE2_MTE3>(i % 2);
                  DataCopy(gm(out)[i * 8], tile, 8);
                  if (i < 6) SetFlag<HardEvent::MTE3_MTE2>(i % 2);
              }
          }) == "");
    CHECK(in == out);
}

__simd_vf__ inline void touch(uint64_t) {}

static void test_counts()
{
    twin::LaunchOptions options;
    options.groups = 3;
    const twin::Result result = twin::launch(options, [] {
        if ASCEND_IS_AIV {
            for (int i = 0; i < 5; ++i) asc_vf_call<touch>(uint64_t(i));
        }
    });
    CHECK(result.ok());
    bool found = false;
    for (size_t id = 0; id < result.vector_counts.size(); ++id) {
        if (twin::VectorFunctions::instance().name(int(id)) != "touch") continue;
        found = true;
        CHECK(twin::VectorCounts(result.vector_counts).of(int(id)).calls == 30);
    }
    CHECK(found);
    CHECK(twin::running.core == nullptr);
}

__simd_vf__ inline void read_ctrl(uint64_t* to) { *to = twin::running_ctrl; }

// A vector function sees CTRL as it was at its call; the next one, and the next core, their own.
static void test_ctrl()
{
    uint64_t seen[2] = {}, other = 0;
    CHECK(run([&] {
              if ASCEND_IS_AIC
                  return;
              InitSocState();
              if (GetSubBlockIdx() == 1) return asc_vf_call<read_ctrl>(&other);
              asc_vf_call<read_ctrl>(&seen[0]);
              SetCtrlSpr<60, 60>(0);
              SetCtrlSpr<48, 48>(1);
              CHECK((GetCtrlSpr<48, 48>() == 1 && GetCtrlSpr<60, 60>() == 0));
              asc_vf_call<read_ctrl>(&seen[1]);
              InitSocState();
          }) == "");
    CHECK(seen[0] == uint64_t{1} << 60);
    CHECK(seen[1] == uint64_t{1} << 48);
    CHECK(other == seen[0]);
}

int main()
{
    test_streaming();
    test_groups();
    test_error_among_groups();
    test_unwinding();
    test_observer();
    test_order();
    test_counts();
    test_ctrl();
    return finish();
}

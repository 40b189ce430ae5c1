// Flags, barriers and what the twin says when they are wrong.
#include "check.h"

// A value travels GM -> L1 in the AIC, while the AIVs hand over through mode-4 flags; every pipe waits for another.
static void test_hand_over()
{
    std::vector<float> in(256), out(256, 0);
    for (int i = 0; i < 256; ++i) in[i] = float(i);
    CHECK(run([&] {
              if ASCEND_IS_AIC {
                  for (int i = 0; i < 100; ++i) {
                      CrossCoreWaitFlag<4, PIPE_MTE1>(3);
                      CrossCoreWaitFlag<4, PIPE_MTE1>(3 + 16);
                      CrossCoreSetFlag<4, PIPE_MTE1>(4);
                      CrossCoreSetFlag<4, PIPE_MTE1>(4 + 16);
                  }
              }
              if ASCEND_IS_AIV {
                  const uint32_t half = uint32_t(GetSubBlockIdx()) * 128;
                  LocalTensor<float> tile(TPosition::VECIN, 0, 128);
                  for (int i = 0; i < 100; ++i) {
                      DataCopy(tile, gm(in)[half], 128);
                      SetFlag<HardEvent::MTE2_MTE3>(5);
                      WaitFlag<HardEvent::MTE2_MTE3>(5);
                      DataCopy(gm(out)[half], tile, 128);
                      CrossCoreSetFlag<4, PIPE_MTE3>(3);
                      CrossCoreWaitFlag<4, PIPE_MTE3>(4);
                      SetFlag<HardEvent::MTE3_MTE2>(5);
                      WaitFlag<HardEvent::MTE3_MTE2>(5);
                  }
              }
          }) == "");
    CHECK(in == out);
}

// A wait blocks its own pipe only, a barrier over all pipes the program, a scalar wait the program too.
static void test_what_blocks()
{
    std::vector<int32_t> trace(16, 0), zeros(16, 0), ones(16, 1);
    CHECK(run([&] {
              if (ASCEND_IS_AIV && GetSubBlockIdx() == 0) {
                  LocalTensor<int32_t> tile(TPosition::VECIN, 0, 16);
                  CrossCoreWaitFlag<4, PIPE_MTE2>(0);  // does not hold up MTE3 and the program
                  DataCopy(tile, gm(ones), 8);
                  CrossCoreSetFlag<4, PIPE_MTE3>(1);
                  SetFlag<HardEvent::MTE2_S>(2);
                  WaitFlag<HardEvent::MTE2_S>(2);
                  SetFlag<HardEvent::S_MTE3>(2);
                  WaitFlag<HardEvent::S_MTE3>(2);
                  DataCopy(gm(trace), tile, 8);
                  PipeBarrier<PIPE_MTE3>();
                  PipeBarrier<PIPE_ALL>();
                  CHECK(trace[0] == 1);
                  CrossCoreSetFlag<4, PIPE_S>(2);
              }
              if ASCEND_IS_AIC {
                  CrossCoreWaitFlag<4, PIPE_S>(1);
                  CrossCoreSetFlag<4, PIPE_S>(0);
                  CrossCoreWaitFlag<4, PIPE_S>(2);
                  CHECK(trace[0] == 1);
              }
          }) == "");
}

// The rule of older architectures, on request: a cross-core wait holds up the whole core.
static void test_older_wait()
{
    auto deadlocks = [](bool wait_blocks_core) {
        twin::LaunchOptions options;
        options.wait_blocks_core = wait_blocks_core;
        return run_with(options, [] {
            if (ASCEND_IS_AIV && GetSubBlockIdx() == 0) {
                CrossCoreWaitFlag<4, PIPE_MTE2>(0);
                CrossCoreSetFlag<4, PIPE_MTE3>(1);
            }
            if ASCEND_IS_AIC {
                CrossCoreWaitFlag<4, PIPE_MTE1>(1);
                CrossCoreSetFlag<4, PIPE_FIX>(0);
            }
        });
    };
    CHECK_HAS(deadlocks(true), "AIV0 group 0, program: CrossCoreWaitFlag (test_flags.cpp:");
    CHECK_HAS(deadlocks(true), "): cross-core flag 0");
    CHECK(deadlocks(false) == "");
}

static void test_credits()
{
    CHECK(run([&] {
              if ASCEND_IS_AIC {
                  for (int i = 0; i < 15; ++i) CrossCoreSetFlag<4, PIPE_FIX>(10 + 16);
              }
              if (ASCEND_IS_AIV && GetSubBlockIdx() == 1) {
                  for (int i = 0; i < 15; ++i) CrossCoreWaitFlag<4, PIPE_V>(10);
              }
          }) == "");
    std::string overflow = run_aic([&] {
        for (int i = 0; i < 16; ++i) CrossCoreSetFlag<4, PIPE_FIX>(10 + 16);
    });
    CHECK_HAS(overflow, "AIC group 0, FIX, CrossCoreSetFlag (test_flags.cpp:");
    CHECK_HAS(overflow, "flag 10 of AIV1 group 0 already counts 15, the most it can");
}

static void test_set_twice()
{
    std::string error = run_aic([&] {
        SetFlag<HardEvent::MTE1_M>(1);
        SetFlag<HardEvent::MTE1_M>(1);
        WaitFlag<HardEvent::MTE1_M>(1);
        WaitFlag<HardEvent::MTE1_M>(1);
    });
    // the second set comes after the first in MTE1, and M has taken nothing yet
    CHECK_HAS(error, "AIC group 0, MTE1, SetFlag (test_flags.cpp:");
    CHECK_HAS(error, "flag MTE1_M 1 is already set, by SetFlag at test_flags.cpp:");
}

__simd_vf__ inline void idle(uint64_t) {}

static void test_deadlock()
{
    std::string error = run([&] {
        if ASCEND_IS_AIC {
            WaitFlag<HardEvent::MTE2_MTE1>(3);
            CrossCoreWaitFlag<4, PIPE_FIX>(7 + 16);
            for (int i = 0; i < 100; ++i) PipeBarrier<PIPE_MTE1>();
        } else if (GetSubBlockIdx() == 0) {
            WaitFlag<HardEvent::V_S>(2);
        } else {
            CrossCoreWaitFlag<4, PIPE_V>(1);
            PipeBarrier<PIPE_ALL>();
        }
    });
    CHECK_HAS(error, "deadlock in group 0");
    CHECK_HAS(error, "AIC group 0, program: PipeBarrier (test_flags.cpp:");
    CHECK_HAS(error, ": the queue of MTE1 is full");
    CHECK_HAS(error, "AIC group 0, MTE1: WaitFlag (test_flags.cpp:");
    CHECK_HAS(error, ": flag MTE2_MTE1 3");
    CHECK_HAS(error, "AIC group 0, FIX: CrossCoreWaitFlag (test_flags.cpp:");
    CHECK_HAS(error, ": cross-core flag 23");
    CHECK_HAS(error, "AIV0 group 0, program: WaitFlag (test_flags.cpp:");
    CHECK_HAS(error, ": flag V_S 2");
    CHECK_HAS(error, "AIV1 group 0, program: PipeBarrier (test_flags.cpp:");
    CHECK_HAS(error, ": queues that are not empty");
    CHECK_HAS(error, "AIV1 group 0, V: CrossCoreWaitFlag");
    const std::string full = run_aiv([] {  // a vector function has no line
        WaitFlag<HardEvent::MTE2_V>(0);
        for (int i = 0; i < 100; ++i) asc_vf_call<idle>(uint64_t(i));
    });
    CHECK_HAS(full, "AIV0 group 0, program: vector function idle: the queue of V is full");
    std::string half = run_aic([&] { WaitFlag<HardEvent::M_FIX>(0); });
    CHECK_HAS(half, "AIC group 0, program: finished");
    CHECK_HAS(half, "AIV0 group 0, program: finished");
}

static void test_left_over()
{
    std::string error = run([&] {
        if ASCEND_IS_AIC {
            SetFlag<HardEvent::M_MTE1>(4);
            CrossCoreSetFlag<4, PIPE_MTE2>(2);
            CrossCoreSetFlag<4, PIPE_MTE2>(2);
        } else if (GetSubBlockIdx() == 1) {
            CrossCoreSetFlag<4, PIPE_V>(5);
        }
    });
    CHECK_HAS(error, "flags left set at the end of group 0");
    CHECK_HAS(error, "AIC group 0: flag M_MTE1 4, set at test_flags.cpp:");
    CHECK_HAS(error, "AIC group 0: cross-core flag 21 counts 1");
    CHECK_HAS(error, "AIV0 group 0: cross-core flag 2 counts 2");
}

static void test_wrong_core()
{
    CHECK_HAS(run_aic([&] { SetFlag<HardEvent::MTE2_V>(0); }),
              "event MTE2_V does not exist on an AIC and would vanish silently");
    CHECK_HAS(run_aic([&] { WaitFlag<HardEvent::MTE3_MTE2>(0); }),
              "event MTE3_MTE2 does not exist on an AIC and would vanish silently");
    CHECK_HAS(run_aiv([&] { SetFlag<HardEvent::MTE1_M>(0); }), "event MTE1_M does not exist on an AIV");
    CHECK_HAS(run_aiv([&] { CrossCoreSetFlag<4, PIPE_FIX>(0); }),
              "AIV0 group 0, FIX, CrossCoreSetFlag (test_flags.cpp:");
    CHECK_HAS(run_aiv([&] { CrossCoreWaitFlag<4, PIPE_M>(0); }), "pipe M belongs to the AIC");
    CHECK_HAS(run_aic([&] { PipeBarrier<PIPE_V>(); }), "pipe V belongs to the AIVs");
}

static void test_ids()
{
    CHECK_HAS(run_aic([&] { SetFlag<HardEvent::MTE1_M>(8); }), "eventID is 8, allowed is 0..7");
    CHECK_HAS(run_aic([&] { WaitFlag<HardEvent::MTE1_M>(-1); }), "eventID is -1, allowed is 0..7");
    CHECK_HAS(run_aic([&] { CrossCoreSetFlag<4, PIPE_FIX>(11); }),
              "flagId 11 is not one of 0..10 (AIV0) or these + 16 (AIV1)");
    CHECK_HAS(run_aic([&] { CrossCoreSetFlag<4, PIPE_FIX>(27); }), "flagId 27 is not one of");
    CHECK_HAS(run_aiv([&] { CrossCoreWaitFlag<4, PIPE_V>(16); }), "flagId 16 is not one of 0..10");
}

int main()
{
    test_hand_over();
    test_what_blocks();
    test_older_wait();
    test_credits();
    test_set_twice();
    test_deadlock();
    test_left_over();
    test_wrong_core();
    test_ids();
    return finish();
}

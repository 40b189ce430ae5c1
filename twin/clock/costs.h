// Every constant of the clock, in cycles of the core and bytes a cycle. docs/clock.md has the source of each and how
// far the model is off where a measurement is published.
#pragma once
#include <cstdint>

namespace twin::clock {

struct Costs {
    // Scalar unit: it issues one call after the other and stops where the queue of a pipe is full.
    int64_t scalar_call = 5;
    int64_t scalar_read = 20;  // GlobalTensor::GetValue and SetValue, mostly from the data cache
    int64_t queue_depth = 32;

    // From the completion of the instruction before a SetFlag to the start of what waited for it.
    int64_t flag = 10;
    int64_t cross_flag = 40;

    int64_t mmad_call = 8;      // per Mmad, behind its products
    int64_t mmad_latency = 60;  // from the last product to L0C

    double l0_rate = 256;  // L1 -> L0A or L0B
    int64_t load_data_call = 37;

    double fixpipe_rate = 128;  // per target
    int64_t fixpipe_call = 40;

    double l1_fill_rate = 128;  // Fill
    double ub_to_l1_rate = 128;
    double ub_to_gm_rate = 42;
    double l2_rate = 100;    // GM -> L1 or UB, per core
    double nd2nz_row = 0.6;  // added per row of a copy that makes NZ
    int64_t copy_call = 40;
    int64_t l2_latency = 200;
    int64_t hbm_latency = 500;
    int64_t gm_burst_bytes = 32;  // a shorter run costs as much

    // A vector function: call + stretch * max(instructions / 2, single-issue cycles, cycles of 16-lane functions / 2,
    // registers to and from UB / 2), and a fence for each LocalMemBar.
    int64_t vector_call = 45;
    int64_t vector_fence = 31;
    double vector_stretch = 1.03;
    bool register_writes = false;  // as one more term: at most two a cycle
};

}  // namespace twin::clock

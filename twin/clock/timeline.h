// What a run of the clock leaves: times per core and pipe, what was waited for, spans for a trace. In cycles.
#pragma once
#include <vector>

#include "program.h"

namespace twin::clock {

struct Span {
    int64_t begin;
    int64_t end;
    uint32_t site;
    uint8_t track;
    bool wait;
};

// One call or wait at one place of the source.
struct SiteTimes {
    uint8_t track = 0;
    int64_t calls = 0;
    int64_t busy = 0;
    int64_t waited = 0;
};

struct CoreTimes {
    int64_t end = 0;
    int64_t busy[kTracks] = {};
    int64_t unfed[kTracks] = {};  // the pipe was free and nothing had been issued to it
    std::vector<SiteTimes> sites;
    std::vector<Span> spans;  // where a trace is wanted
};

struct Timeline {
    std::vector<std::array<CoreTimes, kCores>> groups;
    int64_t cycles = 0;
    std::vector<int64_t> launch_ends;  // of all launches but the last, which ends at `cycles`
    int64_t l2_bytes = 0;              // moved between cores and L2, reads and writes
    int64_t hbm_bytes = 0;             // moved between L2 and HBM, whole lines
};

}  // namespace twin::clock

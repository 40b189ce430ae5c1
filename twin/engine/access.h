// Which bytes an instruction reads or writes: runs of contiguous bytes in up to three nested loops.
#pragma once
#include <algorithm>
#include <cstdint>

#include "memory.h"

namespace twin {

constexpr int kRunningAiv = -1;

// The extent of a tensor. On-chip addresses count from the start of their memory; a GM region has no known end.
struct Region {
    Memory memory;
    int aiv;  // whose UB; kRunningAiv where the calling core is meant
    uint64_t begin;
    uint64_t end;
};

struct Loop {
    uint32_t count = 1;
    int64_t stride_bytes = 0;
};

struct Access {
    const char* operand;  // as the error text calls it
    bool write;
    Region region;
    uint32_t align;
    uint64_t begin;
    uint32_t run_bytes;
    Loop loop[3];

    uint64_t hull_begin() const
    {
        int64_t offset = 0;
        for (const Loop& l : loop) offset += std::min<int64_t>(0, (int64_t(l.count) - 1) * l.stride_bytes);
        return begin + offset;
    }
    uint64_t hull_end() const
    {
        int64_t offset = 0;
        for (const Loop& l : loop) offset += std::max<int64_t>(0, (int64_t(l.count) - 1) * l.stride_bytes);
        return begin + offset + run_bytes;
    }

    // visit(address) for every run, outermost loop first.
    template <class Visit>
    void for_each_run(Visit visit) const
    {
        for (uint32_t i = 0; i < loop[0].count; ++i) {
            for (uint32_t j = 0; j < loop[1].count; ++j) {
                for (uint32_t k = 0; k < loop[2].count; ++k) {
                    visit(begin + i * loop[0].stride_bytes + j * loop[1].stride_bytes + k * loop[2].stride_bytes);
                }
            }
        }
    }
};

}  // namespace twin

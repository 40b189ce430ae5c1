// Vector clocks over the agents of a group: a core's program (PIPE_S) and each of its pipes.
#pragma once
#include <algorithm>
#include <cstdint>

#include "core.h"

namespace twin {

constexpr int kAgentsOfCore = kPipes + 1;
constexpr int kAgents = kCores * kAgentsOfCore;

inline int agent_of(const Core& core, pipe_t pipe)
{
    return core.index * kAgentsOfCore + (pipe == PIPE_S ? 0 : 1 + queue_index(pipe));
}

// at[a]: how many instructions of agent a are known to be finished.
struct Clock {
    uint32_t at[kAgents] = {};

    void join(const Clock& other)
    {
        for (int a = 0; a < kAgents; ++a) at[a] = std::max(at[a], other.at[a]);
    }
};

}  // namespace twin

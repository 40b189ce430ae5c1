// The chips that the clock knows. Source: the platform files of the driver packages (AICoreSpec, AICoreMemoryRates).
#pragma once
#include <cstdint>
#include <string>

#include "../engine/error.h"

namespace twin::clock {

struct Chip {
    const char* name;
    int cores;  // AICs; each has two AIVs
    double mhz;
    double ddr_rate;  // bytes a cycle and AIC; the chip has `cores` times that
    int64_t l2_bytes;
};

constexpr int64_t kMiB = 1024 * 1024;
constexpr Chip kChips[] = {
    {"950PR", 32, 1650, 31, 128 * kMiB},    // Ascend950PR_9589
    {"950DT", 32, 1650, 80, 128 * kMiB},    // Ascend950DT_9581
    {"950DT36", 36, 1800, 80, 128 * kMiB},  // Ascend950DT_9591
};

inline const Chip& find_chip(const std::string& name)
{
    std::string names;
    for (const Chip& chip : kChips) {
        if (name == chip.name) return chip;
        names += std::string(names.empty() ? "" : ", ") + chip.name;
    }
    throw Error("chip is '" + name + "', allowed is " + names);
}

}  // namespace twin::clock

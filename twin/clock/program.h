// What the clock runs: the instruction stream of every core, with costs instead of data.
#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "../engine/core.h"

namespace twin::clock {

constexpr int kScalar = kPipes;  // pipe index of calls that the scalar unit executes itself
constexpr int kTracks = kPipes + 1;
constexpr const char* kTrackName[kTracks] = {"VECTOR", "CUBE", "MTE1", "MTE2", "MTE3", "FIXP", "SCALAR"};

// One slot per HardEvent and id of a core, then one per mode-4 flag that arrives at it.
constexpr int kCrossSlot = kEvents * int(qbsa::arch::kEventIds);
constexpr int kFlagSlots = kCrossSlot + kCrossFlags;
constexpr int event_slot(int event, int id) { return event * int(qbsa::arch::kEventIds) + id; }

constexpr int kNoTransfer = -1;
constexpr uint16_t kLaunchEnd = UINT16_MAX;  // flag of a scalar barrier for all cores of the chip

// A copy between GM and the core: runs of contiguous bytes.
struct Transfer {
    uint64_t begin;
    uint32_t run_bytes;
    bool write;
    Loop loop[3];
    double rate;        // limit of the path inside the core
    double run_cycles;  // added for each run
};

struct Step {
    Kind kind;
    uint8_t pipe;
    uint8_t flag_core;      // whose flag kCrossSet raises
    uint16_t flag;          // slot
    uint32_t site;          // of Sites
    int32_t transfer;       // of Program::transfers
    int64_t busy;           // cycles that the pipe is taken, a transfer not included
    int64_t latency = 0;    // from there to the completion
    uint64_t position = 0;  // in the program of the core, in half steps
};

struct Program {
    std::vector<Step> steps;
    std::vector<Transfer> transfers;
};
using GroupPrograms = std::array<Program, kCores>;

// Names of calls and waits with their place in the source.
class Sites {
public:
    // flag: the event, or the pipe that waits for a mode-4 flag; known_as: " (name)" of the flag, or nothing.
    uint32_t of(const Call& call, const char* flag = nullptr, int id = 0, const std::string& known_as = "")
    {
        const Key key{call.name, call.where.file, call.where.line, flag, id};
        std::lock_guard<std::mutex> lock(mutex_);
        const auto found = index_.find(key);
        if (found != index_.end()) return found->second;
        std::string text = call.name;
        if (flag) text += std::string(" ") + flag + " " + std::to_string(id) + known_as;
        names_.push_back(text);
        places_.push_back(call.where.file ? to_string(call.where) : "");
        return index_[key] = uint32_t(names_.size() - 1);
    }
    const std::string& name(uint32_t site) const { return names_[site]; }
    const std::string& place(uint32_t site) const { return places_[site]; }

private:
    using Key = std::tuple<const char*, const char*, int, const char*, int>;
    std::mutex mutex_;
    std::map<Key, uint32_t> index_;
    std::vector<std::string> names_;
    std::vector<std::string> places_;
};

}  // namespace twin::clock

// What the kernel calls its buffers and flags, for messages. Without names, messages show numbers only.
#pragma once
#include <string>
#include <vector>

#include "../calls/hard_event.h"
#include "memory.h"

namespace twin {

struct BufferName {
    Memory memory;
    uint32_t begin;
    uint32_t slot_bytes;
    uint32_t slots;
    const char* name;
};

constexpr int kCrossEvent = -1;

// Ids first, first + 1, .. of one HardEvent, or of mode-4 flags (kCrossEvent, ids as an AIV counts them).
struct FlagName {
    int event;
    bool aic;  // of a HardEvent: whose
    int first;
    int count;
    const char* name;
};

inline std::string with_slot(const char* name, uint64_t slot, uint64_t slots)
{
    return slots == 1 ? name : name + ("[" + std::to_string(slot) + "]");
}

class Names {
public:
    std::vector<BufferName> buffers;
    std::vector<FlagName> flags;

    // "key[1]" for a byte of L1, or nothing.
    std::string buffer_name(Memory memory, uint64_t address) const
    {
        for (const BufferName& b : buffers) {
            const uint64_t end = b.begin + uint64_t(b.slot_bytes) * b.slots;
            if (b.memory != memory || address < b.begin || address >= end) continue;
            return with_slot(b.name, (address - b.begin) / b.slot_bytes, b.slots);
        }
        return "";
    }
    std::string event_name(bool aic, int event, int id) const { return flag(event, aic, id); }
    std::string cross_name(int id) const { return flag(kCrossEvent, true, id % qbsa::arch::kCrossFlagAiv1); }

    // The same as " (key[1])", to stand behind a number.
    std::string buffer(Memory memory, uint64_t address) const { return aside(buffer_name(memory, address)); }
    std::string event(bool aic, int event, int id) const { return aside(event_name(aic, event, id)); }
    std::string cross(int id) const { return aside(cross_name(id)); }

private:
    static std::string aside(const std::string& name) { return name.empty() ? name : " (" + name + ")"; }

    std::string flag(int event, bool aic, int id) const
    {
        for (const FlagName& f : flags) {
            if (f.event != event || f.aic != aic || id < f.first || id >= f.first + f.count) continue;
            return with_slot(f.name, id - f.first, f.count);
        }
        return "";
    }
};

}  // namespace twin

// On-chip memories of one AIC group, with a byte shadow in the checked variant.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>

#include "../../kernels_ascendc/arch.h"
#include "config.h"

namespace twin {

enum class Memory : uint8_t { kGm, kUb, kL1, kL0A, kL0B, kL0C };

constexpr const char* kMemoryName[] = {"GM", "UB", "L1", "L0A", "L0B", "L0C"};
constexpr uint32_t kMemoryBytes[] = {
    0, qbsa::arch::kUbBytes, qbsa::arch::kL1Bytes, qbsa::arch::kL0aBytes, qbsa::arch::kL0bBytes, qbsa::arch::kL0cBytes};

inline const char* name(Memory memory) { return kMemoryName[static_cast<int>(memory)]; }
inline uint32_t capacity(Memory memory) { return kMemoryBytes[static_cast<int>(memory)]; }

// Data and shadow side by side; a shadow byte is 1 when its data byte was written since the group started.
// GM has no shadow: what the host handed over counts as written.
struct Bytes {
    uint8_t* data;
    uint8_t* shadow;

    Bytes operator+(int64_t offset) const { return {data + offset, kChecked && shadow ? shadow + offset : nullptr}; }
};

inline void mark(Bytes to, size_t bytes, bool initialised)
{
    if (kChecked && to.shadow) std::memset(to.shadow, initialised, bytes);
}

inline void copy(Bytes to, Bytes from, size_t bytes)
{
    std::memcpy(to.data, from.data, bytes);
    if (kChecked && to.shadow) {
        if (from.shadow) {
            std::memcpy(to.shadow, from.shadow, bytes);
        } else {
            std::memset(to.shadow, 1, bytes);
        }
    }
}

constexpr uint8_t kPoison = 0xFF;  // NaN as e4m3, bf16 and fp32

class GroupMemory {
public:
    GroupMemory() : storage_(new(std::align_val_t(kAlign)) uint8_t[kBytes * (kChecked ? 2 : 1)]) { reset(); }

    void reset()
    {
        std::memset(storage_.get(), kPoison, kBytes);
        if (kChecked) std::memset(storage_.get() + kBytes, 0, kBytes);
    }

    // aiv: 0 or 1, of UB alone.
    Bytes at(Memory memory, int aiv = 0) const
    {
        size_t offset = kSlotBytes * (memory == Memory::kUb ? aiv : static_cast<int>(memory));
        return {storage_.get() + offset, kChecked ? storage_.get() + kBytes + offset : nullptr};
    }

private:
    static constexpr size_t kAlign = 4096;
    static constexpr size_t kSlotBytes = 512 * 1024;  // UB0, UB1, L1, L0A, L0B, L0C, each in a slot of its own
    static constexpr size_t kBytes = 6 * kSlotBytes;
    static_assert(kSlotBytes >= qbsa::arch::kL1Bytes, "L1 is the largest memory");

    struct Free {
        void operator()(uint8_t* p) const { operator delete[](p, std::align_val_t(kAlign)); }
    };
    std::unique_ptr<uint8_t[], Free> storage_;
};

}  // namespace twin

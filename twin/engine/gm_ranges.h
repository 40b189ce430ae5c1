// Which global memory a launch may touch. Without any range, everything is allowed.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace twin {

enum class GmUse { kRead, kWrite, kReadWrite };

struct GmRange {
    uint64_t begin;
    uint64_t bytes;
    const char* name;
    GmUse use;
};

class GmRanges {
public:
    void add(const GmRange& range)
    {
        if (range.bytes > 0) ranges_.push_back(range);
    }
    bool empty() const { return ranges_.empty(); }

    bool allows(uint64_t begin, uint64_t end, bool write) const
    {
        for (const GmRange& r : ranges_) {
            if (begin >= r.begin && end <= r.begin + r.bytes && r.use != (write ? GmUse::kRead : GmUse::kWrite)) {
                return true;
            }
        }
        return false;
    }

    // The range that holds an address, or null.
    const GmRange* find(uint64_t address) const
    {
        for (const GmRange& r : ranges_) {
            if (address >= r.begin && address < r.begin + r.bytes) return &r;
        }
        return nullptr;
    }

    // Can the launch write any of these bytes? Bytes that it only reads cannot be raced for.
    bool may_be_written(uint64_t begin, uint64_t end) const
    {
        if (empty()) return true;
        for (const GmRange& r : ranges_) {
            if (begin < r.begin + r.bytes && r.begin < end && r.use != GmUse::kRead) return true;
        }
        return false;
    }

    // An address that does not depend on where the host put the tensors: as if they lay one behind the other, each at a
    // multiple of kPlacedAlign. Addresses outside of all of them stay.
    static constexpr uint64_t kPlacedAlign = 4096;
    uint64_t placed(uint64_t address) const
    {
        uint64_t base = kPlacedAlign;
        for (const GmRange& r : ranges_) {
            if (address >= r.begin && address < r.begin + r.bytes) return base + (address - r.begin);
            base += (r.bytes + kPlacedAlign - 1) / kPlacedAlign * kPlacedAlign;
        }
        return address;
    }

    // The range that an access which is not allowed probably meant, as text.
    std::string nearest(uint64_t begin, uint64_t end) const
    {
        const GmRange* best = nullptr;
        uint64_t best_distance = UINT64_MAX;
        for (const GmRange& r : ranges_) {
            uint64_t distance = begin >= r.begin + r.bytes ? begin - (r.begin + r.bytes) + 1
                                : end <= r.begin           ? r.begin - end + 1
                                                           : 0;
            if (distance < best_distance) best = &r, best_distance = distance;
        }
        if (!best) return "no tensor";
        const char* use = best->use == GmUse::kRead ? "read-only " : best->use == GmUse::kWrite ? "write-only " : "";
        int64_t offset = int64_t(begin - best->begin);
        return use + std::string("tensor ") + best->name + " of " + std::to_string(best->bytes) +
               " bytes; the access begins at its byte " + std::to_string(offset);
    }

private:
    std::vector<GmRange> ranges_;
};

}  // namespace twin

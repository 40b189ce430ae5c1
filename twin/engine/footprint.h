// What one vector function touches in UB, known only while it runs: whole data blocks for the order between pipes, and
// words stored since the last LocalMemBar for the order inside.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../kernels_ascendc/arch.h"

namespace twin {

class Footprint {
public:
    static constexpr uint32_t kBlock = qbsa::arch::kDataBlockBytes;
    static constexpr uint32_t kBlocks = qbsa::arch::kUbBytes / kBlock;
    static constexpr uint8_t kRead = 1;
    static constexpr uint8_t kWritten = 2;

    Footprint() : use_(kBlocks), stored_(qbsa::arch::kUbBytes / kWord) {}

    void begin()
    {
        std::fill(use_.begin(), use_.end(), 0);
        ++epoch_;
    }

    // False: bytes of the range were stored by this vector function and no LocalMemBar<VEC_STORE, VEC_LOAD> came since.
    bool load(uint32_t offset, uint32_t bytes)
    {
        mark(offset, bytes, kRead);
        const auto first = stored_.begin() + offset / kWord;
        const auto last = stored_.begin() + (offset + bytes - 1) / kWord + 1;
        return std::find(first, last, epoch_) == last;
    }
    void store(uint32_t offset, uint32_t bytes)
    {
        mark(offset, bytes, kWritten);
        for (uint32_t word = offset / kWord; word <= (offset + bytes - 1) / kWord; ++word) stored_[word] = epoch_;
    }
    void fence() { ++epoch_; }

    // visit(begin, end) of every run of blocks with this use.
    template <class Visit>
    void for_each_run(uint8_t use, Visit visit) const
    {
        for (uint32_t block = 0; block < kBlocks; ++block) {
            if (!(use_[block] & use)) continue;
            const uint32_t begin = block;
            while (block < kBlocks && use_[block] & use) ++block;
            visit(begin * kBlock, block * kBlock);
        }
    }

private:
    static constexpr uint32_t kWord = 4;

    void mark(uint32_t offset, uint32_t bytes, uint8_t use)
    {
        for (uint32_t block = offset / kBlock; block <= (offset + bytes - 1) / kBlock; ++block) use_[block] |= use;
    }

    std::vector<uint8_t> use_;      // by block
    std::vector<uint32_t> stored_;  // by word: epoch of the last store
    uint32_t epoch_ = 0;
};

}  // namespace twin

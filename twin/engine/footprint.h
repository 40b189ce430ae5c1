// What one vector function touches in UB, known only while it runs: whole data blocks for the order between pipes, and
// words since the last LocalMemBar for the order inside.
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

    Footprint() : use_(kBlocks), words_(qbsa::arch::kUbBytes / kWord) {}

    void begin()
    {
        std::fill(use_.begin(), use_.end(), 0);
        ++store_epoch_;
        ++load_epoch_;
    }

    // False: bytes of the range were stored by this vector function and no LocalMemBar<VEC_STORE, VEC_LOAD> came since.
    bool load(uint32_t offset, uint32_t bytes, uintptr_t reg)
    {
        mark(offset, bytes, kRead);
        bool ordered = true;
        for_words(offset, bytes, [&](Word& word) {
            ordered &= word.stored != store_epoch_;
            word.reader = word.loaded == load_epoch_ && word.reader != reg ? 0 : reg;
            word.loaded = load_epoch_;
        });
        return ordered;
    }
    // False: bytes of the range were loaded to another register and no LocalMemBar<VEC_LOAD, VEC_STORE> came since.
    bool store(uint32_t offset, uint32_t bytes, uintptr_t reg)
    {
        mark(offset, bytes, kWritten);
        bool ordered = true;
        for_words(offset, bytes, [&](Word& word) {
            ordered &= word.loaded != load_epoch_ || word.reader == reg;
            word.stored = store_epoch_;
        });
        return ordered;
    }
    void fence(bool to_loads) { ++(to_loads ? store_epoch_ : load_epoch_); }

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

    struct Word {
        uint32_t stored;   // epoch of the last store
        uint32_t loaded;   // and of the last load
        uintptr_t reader;  // the register that loaded it, 0: several
    };

    template <class Visit>
    void for_words(uint32_t offset, uint32_t bytes, Visit visit)
    {
        for (uint32_t word = offset / kWord; word <= (offset + bytes - 1) / kWord; ++word) visit(words_[word]);
    }

    void mark(uint32_t offset, uint32_t bytes, uint8_t use)
    {
        for (uint32_t block = offset / kBlock; block <= (offset + bytes - 1) / kBlock; ++block) use_[block] |= use;
    }

    std::vector<uint8_t> use_;  // by block
    std::vector<Word> words_;
    uint32_t store_epoch_ = 0;  // counts LocalMemBars from stores to loads
    uint32_t load_epoch_ = 0;   // and from loads to stores
};

}  // namespace twin

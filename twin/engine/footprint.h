// What one vector function touches in UB, known only while it runs: whole data blocks for the order between pipes, and
// words for the order inside.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "../../kernels_ascendc/arch.h"
#include "dependences.h"
#include "vector_scope.h"

namespace twin {

// Inside a vector function the units of loads and stores overtake each other and themselves. What orders two accesses
// to the same bytes: a LocalMemBar; for a store behind a load or a store, the same register; and for a store behind a
// load, a value that was computed from it.
class Footprint {
public:
    static constexpr uint32_t kBlock = qbsa::arch::kDataBlockBytes;
    static constexpr uint32_t kBlocks = qbsa::arch::kUbBytes / kBlock;
    static constexpr uint8_t kRead = 1;
    static constexpr uint8_t kWritten = 2;

    Footprint() : use_(kBlocks), words_(kBlocks * kWordsOfBlock) {}

    void begin()
    {
        for (uint32_t block = 0; block < kBlocks; ++block) {
            if (use_[block] == 0) continue;
            use_[block] = 0;
            std::fill_n(words_.begin() + block * kWordsOfBlock, kWordsOfBlock, Word{});
        }
        loads_ = stores_ = 0;
        std::fill(std::begin(fenced_), std::end(fenced_), 0);
        values_.clear();
    }

    // What must stand before the access and does not.
    VectorFence load(uint32_t offset, uint32_t bytes, uintptr_t reg)
    {
        mark(offset, bytes, kRead);
        values_.loaded(reg, ++loads_);
        VectorFence missing = VectorFence::kNone;
        for_words(offset, bytes, [&](Word& word) {
            if (word.store > fenced(VectorFence::kStoreToLoad)) missing = VectorFence::kStoreToLoad;
            add_reader(word, reg);
        });
        return missing;
    }
    VectorFence store(uint32_t offset, uint32_t bytes, uintptr_t reg)
    {
        mark(offset, bytes, kWritten);
        ++stores_;
        VectorFence missing = VectorFence::kNone;
        for_words(offset, bytes, [&](Word& word) {
            for (const Reader& reader : word.reader) {
                if (!is_before(reader, reg)) missing = VectorFence::kLoadToStore;
            }
            if (word.store > fenced(VectorFence::kStoreToStore) && word.writer != reg) {
                missing = VectorFence::kStoreToStore;
            }
            word = {stores_, reg, {}};
        });
        return missing;
    }

    void fence(VectorFence kind) { fenced(kind) = kind == VectorFence::kLoadToStore ? loads_ : stores_; }

    void computed(uintptr_t reg, std::initializer_list<uintptr_t> sources) { values_.computed(reg, sources); }

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
    static constexpr uint32_t kWordsOfBlock = kBlock / kWord;
    static constexpr uintptr_t kSeveral = 0;  // registers

    struct Reader {
        uint32_t load = 0;  // its number, 0: none
        uintptr_t reg = kSeveral;
    };
    struct Word {
        uint32_t store = 0;  // number of the last one, 0: none
        uintptr_t writer = 0;
        Reader reader[2];  // since that store
    };

    uint32_t& fenced(VectorFence kind) { return fenced_[int(kind)]; }

    bool is_before(const Reader& reader, uintptr_t reg)
    {
        if (reader.load <= fenced(VectorFence::kLoadToStore)) return true;
        return reader.reg == reg || (reader.reg != kSeveral && values_.depends(reg, reader.load));
    }

    void add_reader(Word& word, uintptr_t reg)
    {
        for (Reader& reader : word.reader) {
            if (reader.load <= fenced(VectorFence::kLoadToStore) || reader.reg == reg) {
                reader = {loads_, reg};
                return;
            }
        }
        word.reader[1] = {loads_, kSeveral};
    }

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
    uint32_t loads_ = 0;  // of this vector function so far
    uint32_t stores_ = 0;
    uint32_t fenced_[int(VectorFence::kNone)] = {};  // the loads or stores that the last such LocalMemBar waited for
    Dependences values_;
};

}  // namespace twin

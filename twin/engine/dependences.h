// Which loads of a vector function the values in its registers come from.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <unordered_map>
#include <vector>

namespace twin {

// Loads are numbered from 1; registers are told apart by address.
class Dependences {
public:
    void clear() { loads_.clear(); }

    void loaded(uintptr_t reg, uint32_t load)
    {
        Loads& loads = loads_[reg];
        loads.assign(load / kBits + 1, 0);
        loads.back() = uint64_t{1} << load % kBits;
    }

    void computed(uintptr_t reg, std::initializer_list<uintptr_t> sources)
    {
        Loads all;
        for (uintptr_t source : sources) {
            const auto found = loads_.find(source);
            if (found == loads_.end()) continue;
            if (all.size() < found->second.size()) all.resize(found->second.size());
            for (size_t i = 0; i < found->second.size(); ++i) all[i] |= found->second[i];
        }
        loads_[reg] = std::move(all);
    }

    bool depends(uintptr_t reg, uint32_t load) const
    {
        const auto found = loads_.find(reg);
        if (found == loads_.end() || found->second.size() <= load / kBits) return false;
        return (found->second[load / kBits] >> load % kBits & 1) != 0;
    }

private:
    static constexpr uint32_t kBits = 64;
    using Loads = std::vector<uint64_t>;  // bit n: load n

    std::unordered_map<uintptr_t, Loads> loads_;
};

}  // namespace twin

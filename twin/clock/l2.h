// Which lines of GM lie in L2. The oldest line makes room.
#pragma once
#include <cstdint>
#include <deque>
#include <unordered_set>

#include "program.h"

namespace twin::clock {

class L2 {
public:
    static constexpr uint64_t kLine = 512;

    explicit L2(int64_t bytes) : lines_(size_t(bytes) / kLine) {}

    // Bytes of the transfer's lines that were not there; they are now.
    int64_t touch(const Transfer& transfer)
    {
        int64_t missed = 0;
        uint64_t last = UINT64_MAX;
        for (uint32_t i = 0; i < transfer.loop[0].count; ++i) {
            for (uint32_t j = 0; j < transfer.loop[1].count; ++j) {
                for (uint32_t k = 0; k < transfer.loop[2].count; ++k) {
                    const uint64_t begin = transfer.begin + i * transfer.loop[0].stride_bytes +
                                           j * transfer.loop[1].stride_bytes + k * transfer.loop[2].stride_bytes;
                    const uint64_t end = (begin + transfer.run_bytes - 1) / kLine;
                    for (uint64_t line = begin / kLine; line <= end; ++line) {
                        if (line != last && add(line)) missed += kLine;
                        last = line;
                    }
                }
            }
        }
        return missed;
    }

private:
    bool add(uint64_t line)
    {
        if (!present_.insert(line).second) return false;
        order_.push_back(line);
        if (order_.size() > lines_) {
            present_.erase(order_.front());
            order_.pop_front();
        }
        return true;
    }

    size_t lines_;
    std::unordered_set<uint64_t> present_;
    std::deque<uint64_t> order_;
};

}  // namespace twin::clock

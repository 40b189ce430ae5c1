// Every access to global memory that a launch may write, to the byte, of all its groups.
#pragma once
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "instruction.h"

namespace twin {

// One instruction of one agent.
struct GmUser {
    int group = -1;  // -1: nobody
    int agent = 0;
    uint32_t time = 0;
    Call call{};
};

class GmAccesses {
public:
    // ordered(user): does this user's instruction come before the present one? The first that does not: its copy;
    // group -1 if all do, and then the access is remembered.
    template <class Ordered>
    GmUser access(uint64_t begin, uint64_t end, bool write, const GmUser& user, Ordered ordered)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        split(begin);
        split(end);
        for (auto it = spans_.lower_bound(begin); it != spans_.end() && it->first < end; ++it) {
            const Span& span = it->second;
            if (span.writer.group >= 0 && !ordered(span.writer)) return span.writer;
            if (!write) continue;
            for (const GmUser& reader : span.readers) {
                if (!ordered(reader)) return reader;
            }
        }
        remember(begin, end, write, user);
        return {};
    }

private:
    struct Span {
        uint64_t end = 0;
        GmUser writer;
        std::vector<GmUser> readers;
    };

    void split(uint64_t at)
    {
        auto it = spans_.upper_bound(at);
        if (it == spans_.begin()) return;
        --it;
        if (it->first == at || it->second.end <= at) return;
        spans_.emplace(at, it->second);
        it->second.end = at;
    }

    void remember(uint64_t begin, uint64_t end, bool write, const GmUser& user)
    {
        if (write) {
            spans_.erase(spans_.lower_bound(begin), spans_.lower_bound(end));
            spans_.emplace(begin, Span{end, user, {}});
            return;
        }
        for (uint64_t at = begin; at < end;) {
            auto it = spans_.lower_bound(at);
            if (it == spans_.end() || it->first > at) {
                const uint64_t next = it == spans_.end() ? end : std::min(end, it->first);
                it = spans_.emplace(at, Span{next, {}, {}}).first;
            }
            add_reader(it->second.readers, user);
            at = it->second.end;
        }
    }

    static void add_reader(std::vector<GmUser>& readers, const GmUser& user)
    {
        for (GmUser& reader : readers) {
            if (reader.group == user.group && reader.agent == user.agent) {
                reader = user;
                return;
            }
        }
        readers.push_back(user);
    }

    std::mutex mutex_;
    std::map<uint64_t, Span> spans_;  // by begin; they do not overlap
};

}  // namespace twin

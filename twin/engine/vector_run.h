// Vector functions at run time: their names, their counts, and the checks behind vector_scope.h.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "core.h"
#include "footprint.h"
#include "names.h"
#include "vector_scope.h"

namespace twin {

constexpr int kVectorOps = static_cast<int>(VectorOp::kCount);
constexpr const char* kVectorOpName[] = {
#define X(enumerator, spelling, issue, cycles, registers) spelling,
    QBSA_VECTOR_OPS(X)
#undef X
};

// Every vector function that was called in this process; ids count up from 0.
class VectorFunctions {
public:
    static VectorFunctions& instance()
    {
        static VectorFunctions all;
        return all;
    }
    int add(const std::string& name)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        names_.push_back(name);
        return int(names_.size()) - 1;
    }
    std::string name(int id)
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return names_[id];
    }

private:
    std::mutex mutex_;
    std::vector<std::string> names_;
};

struct VectorCount {
    int64_t calls = 0;
    int64_t ops[kVectorOps] = {};  // stays 0 in the fast variant
};

// By id of the vector function.
class VectorCounts {
public:
    VectorCount& of(int id)
    {
        if (size_t(id) >= counts_.size()) counts_.resize(id + 1);
        return counts_[id];
    }
    size_t size() const { return counts_.size(); }

    void add(const VectorCounts& other)
    {
        for (size_t id = 0; id < other.size(); ++id) {
            VectorCount& mine = of(int(id));
            mine.calls += other.counts_[id].calls;
            for (int op = 0; op < kVectorOps; ++op) mine.ops[op] += other.counts_[id].ops[op];
        }
    }

private:
    std::vector<VectorCount> counts_;
};

#if QBSA_TWIN_CHECKED

// The vector function that runs on this host thread, or the last one that ran.
struct VectorRun {
    Bytes ub{};
    bool active = false;
    Footprint* footprint = nullptr;  // race mode and log
    int function = 0;
    int fences = 0;
    int64_t ops[kVectorOps] = {};
};
inline thread_local VectorRun vector_run;

const Names& names_of(const Core& core);
bool drops_fence(const Core& core, int function, int index);

[[noreturn, gnu::cold]] inline void fail_vector(VectorOp op, const std::string& reason)
{
    if (!running.core) throw Error(format("%s outside of a launch", kVectorOpName[int(op)]));
    fail("%s %s", kVectorOpName[int(op)], reason.c_str());
}

// Offset in UB of an access that is inside of it and aligned.
inline uint32_t vector_offset(const void* p, uint32_t bytes, uint32_t align, VectorOp op)
{
    if (!vector_run.active) fail_vector(op, "outside of a vector function");
    int64_t offset = static_cast<const uint8_t*>(p) - vector_run.ub.data;
    if (offset < 0 || offset + bytes > capacity(Memory::kUb)) {
        fail_vector(op, format("[%#llx, %#llx) exceeds UB of %u bytes", static_cast<long long>(offset),
                               static_cast<long long>(offset + bytes), capacity(Memory::kUb)));
    }
    if (offset % align != 0) {
        fail_vector(op, format("address %#llx is not a multiple of %u", static_cast<long long>(offset), align));
    }
    return uint32_t(offset);
}

inline void on_vector_op(VectorOp op)
{
    if (!vector_run.active) fail_vector(op, "outside of a vector function");
    ++vector_run.ops[int(op)];
}

inline void on_vector_value(uintptr_t reg, std::initializer_list<uintptr_t> sources)
{
    if (vector_run.footprint) vector_run.footprint->computed(reg, sources);
}

// Order inside a vector function, checked in race mode.
[[noreturn, gnu::cold]] inline void fail_unfenced(VectorOp op, uint32_t offset, uint32_t bytes, VectorFence missing)
{
    struct Text {
        const char *done, *fence;
    };
    constexpr Text kText[] = {{"stored", "VEC_STORE, VEC_LOAD"},
                              {"loaded to another register", "VEC_LOAD, VEC_STORE"},
                              {"stored from another register", "VEC_STORE, VEC_STORE"}};
    const Text& text = kText[int(missing)];
    const std::string buffer = names_of(*running.core).buffer(Memory::kUb, offset);
    fail_vector(op, format("race: UB [%#x, %#x)%s holds bytes that this vector function has %s; LocalMemBar<%s> must "
                           "stand between",
                           offset, offset + bytes, buffer.c_str(), text.done, text.fence));
}
inline void check_order(VectorOp op, uint32_t offset, uint32_t bytes, VectorFence missing)
{
    if (missing != VectorFence::kNone) fail_unfenced(op, offset, bytes, missing);
}
inline void record_store(VectorOp op, uint32_t offset, uint32_t bytes, uintptr_t reg)
{
    check_order(op, offset, bytes, vector_run.footprint->store(offset, bytes, reg));
}

inline void on_vector_load(const void* from, uint32_t bytes, uint32_t align, VectorOp op, uintptr_t reg)
{
    uint32_t offset = vector_offset(from, bytes, align, op);
    const uint8_t* shadow = vector_run.ub.shadow + offset;
    if (const void* hole = std::memchr(shadow, 0, bytes)) {
        uint32_t at = offset + uint32_t(static_cast<const uint8_t*>(hole) - shadow);
        fail_vector(op, format("[%#x, %#x) reads UB byte %#x, which nothing has written", offset, offset + bytes, at));
    }
    if (vector_run.footprint) check_order(op, offset, bytes, vector_run.footprint->load(offset, bytes, reg));
}

inline void on_vector_fence(VectorFence kind)
{
    if (!vector_run.footprint) return;
    if (drops_fence(*running.core, vector_run.function, vector_run.fences++)) return;
    vector_run.footprint->fence(kind);
}

inline void on_vector_store(void* to, uint32_t bytes, uint32_t align, VectorOp op, uintptr_t reg)
{
    uint32_t offset = vector_offset(to, bytes, align, op);
    mark(vector_run.ub + offset, bytes, true);
    if (vector_run.footprint) record_store(op, offset, bytes, reg);
}

inline void on_vector_store_bytes(void* to, const uint8_t* active, uint32_t bytes, uint32_t align, VectorOp op,
                                  uintptr_t reg)
{
    uint32_t last = bytes;
    while (last > 0 && active[last - 1] == 0) --last;
    if (last == 0) return;
    uint32_t offset = vector_offset(to, last, align, op);
    for (uint32_t i = 0; i < last; ++i) {
        if (active[i] == 0) continue;
        vector_run.ub.shadow[offset + i] = 1;
        if (vector_run.footprint) record_store(op, offset + i, 1, reg);
    }
}

#endif

// Instructions of the vector function that ended last on this host thread, by VectorOp; null in the fast variant.
inline const int64_t* ops_of_last_vector_call()
{
#if QBSA_TWIN_CHECKED
    return vector_run.ops;
#else
    return nullptr;
#endif
}

}  // namespace twin

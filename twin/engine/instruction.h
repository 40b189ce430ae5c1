// What a device call leaves in the queue of its pipe.
#pragma once
#include <cstddef>
#include <new>
#include <type_traits>

#include "../calls/types.h"
#include "access.h"
#include "error.h"

namespace twin {

constexpr int kPipes = 6;  // queue index of each pipe but PIPE_S, whose calls take effect as they are issued

constexpr int queue_index(pipe_t pipe)
{
    return pipe == PIPE_V      ? 0
           : pipe == PIPE_M    ? 1
           : pipe == PIPE_MTE1 ? 2
           : pipe == PIPE_MTE2 ? 3
           : pipe == PIPE_MTE3 ? 4
                               : 5;
}
constexpr const char* kQueueName[kPipes] = {"V", "M", "MTE1", "MTE2", "MTE3", "FIX"};

inline const char* name(pipe_t pipe)
{
    return pipe == PIPE_S ? "S" : pipe == PIPE_ALL ? "ALL" : kQueueName[queue_index(pipe)];
}

struct Call {
    const char* name;
    pipe_t pipe;
    Where where;
};

// "DataCopy (pages.h:25)"; the place of a vector function is not known.
inline std::string describe(const Call& call)
{
    return call.where.file ? call.name + (" (" + to_string(call.where) + ")") : call.name;
}

enum class Kind : uint8_t { kRun, kBarrier, kSetFlag, kWaitFlag, kCrossSet, kCrossWait };

struct Instruction {
    static constexpr size_t kClosureBytes = 256;
    static constexpr int kMaxAccesses = 4;

    Call call;
    Kind kind;
    uint8_t event;        // HardEvent of kSetFlag and kWaitFlag
    uint8_t flag;         // id of a flag; for kCrossSet the id at the receiver
    uint8_t target_core;  // receiver of kCrossSet
    uint8_t accesses;
    uint64_t sequence;       // position in the program of its core
    uint32_t program_epoch;  // race mode: what its core's program had waited for when it was issued
    uint32_t program_time;
    Access access[kMaxAccesses];
    void (*run)(void* closure);
    alignas(std::max_align_t) unsigned char closure[kClosureBytes];

    template <class Body>
    void set_body(const Body& body)
    {
        static_assert(sizeof(Body) <= kClosureBytes, "the arguments of this call do not fit in an instruction");
        static_assert(std::is_trivially_copyable<Body>::value, "instructions keep plain values only");
        new (closure) Body(body);
        run = [](void* p) { (*static_cast<Body*>(p))(); };
    }
};

// A call of PIPE_S. kRun: a scalar access to GM; kBarrier: PipeBarrier<PIPE_ALL>.
struct ScalarCall {
    Call call;
    Kind kind;
    int event = 0;
    int flag = 0;
    int target_core = 0;
};

// First in, first out, of a fixed size: the memory of a program does not grow with its length.
class Queue {
public:
    static constexpr int kDepth = 32;  // of MTE1; other depths are not published

    bool empty() const { return size_ == 0; }
    bool full() const { return size_ == kDepth; }
    int size() const { return size_; }
    Instruction& at(int i) { return ring_[(head_ + i) % kDepth]; }
    Instruction& front() { return ring_[head_]; }
    const Instruction& front() const { return ring_[head_]; }
    Instruction& push() { return ring_[(head_ + size_++) % kDepth]; }
    void pop()
    {
        head_ = (head_ + 1) % kDepth;
        --size_;
    }
    void clear() { size_ = 0; }

private:
    Instruction ring_[kDepth];
    int head_ = 0;
    int size_ = 0;
};

}  // namespace twin

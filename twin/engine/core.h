// One core: the queues of its pipes, its flags, and its scalar program on a fiber.
#pragma once
#include <cstdarg>
#include <string>

#include "../calls/hard_event.h"
#include "fiber.h"
#include "instruction.h"
#include "mutation.h"
#include "vector_scope.h"

namespace twin {

class Group;

constexpr int kCores = 1 + qbsa::arch::kAivPerAic;
constexpr int kCrossFlags = 2 * qbsa::arch::kCrossFlagAiv1;  // of the AIC; an AIV uses the lower half

struct Cancelled {};  // unwinds the programs of a group that has failed

// Why a scalar program does not go on.
struct ProgramWait {
    enum Kind { kNone, kRoom, kFlag, kCross, kDrain } kind = kNone;
    Call call{};
    int event = 0;
    int flag = 0;
};

class Core {
public:
    Queue queue[kPipes];
    bool event_set[kEvents][qbsa::arch::kEventIds];
    Where event_set_at[kEvents][qbsa::arch::kEventIds];
    uint8_t cross_count[kCrossFlags];
    uint64_t ctrl;
    uint64_t issued;
    Fiber program;
    ProgramWait wait;
    Group* group;
    int index;  // 0: AIC, 1 + k: AIV k

    bool is_aic() const { return index == 0; }
    int aiv() const { return index - 1; }
    std::string describe() const;

    // Mode 4: flags n and n + 16 of the AIC meet flag n of AIV0 and of AIV1. Receiver of a set, and the id it sees.
    int cross_target(int id) const { return !is_aic() ? 0 : 1 + id / int(qbsa::arch::kCrossFlagAiv1); }
    int cross_id_at_target(int id) const
    {
        return is_aic() ? id % int(qbsa::arch::kCrossFlagAiv1) : id + aiv() * int(qbsa::arch::kCrossFlagAiv1);
    }

    bool has_pipe(pipe_t pipe) const
    {
        switch (pipe) {
            case PIPE_S:
            case PIPE_MTE2:
                return true;
            case PIPE_M:
            case PIPE_MTE1:
            case PIPE_FIX:
                return is_aic();
            default:
                return pipe != PIPE_ALL && !is_aic();
        }
    }

    void reset()
    {
        for (Queue& q : queue) q.clear();
        std::memset(event_set, 0, sizeof event_set);
        std::memset(cross_count, 0, sizeof cross_count);
        ctrl = kCtrlDefault;
        issued = 0;
        wait = {};
    }

    bool drained() const
    {
        for (const Queue& q : queue) {
            if (!q.empty()) return false;
        }
        return true;
    }

    // A place for the next instruction of the program, at the end of its pipe's queue; suspends the program until there
    // is one.
    Instruction& reserve(Call call, Kind kind);
    // Does a mutation drop the next instruction, which takes a sequence number but no queue?
    bool next_is_dropped();

    void suspend_until(const ProgramWait& reason);

    bool program_can_go_on() const
    {
        switch (wait.kind) {
            case ProgramWait::kRoom:
                return !queue[queue_index(wait.call.pipe)].full();
            case ProgramWait::kFlag:
                return event_set[wait.event][wait.flag];
            case ProgramWait::kCross:
                return cross_count[wait.flag] > 0;
            case ProgramWait::kDrain:
                return drained();
            default:
                return true;
        }
    }

    bool head_is_ready(int q) const
    {
        if (queue[q].empty()) return false;
        const Instruction& head = queue[q].front();
        if (head.kind == Kind::kWaitFlag) return event_set[head.event][head.flag];
        if (head.kind == Kind::kCrossWait) return cross_count[head.flag] > 0;
        return true;
    }

    // Flags, by the pipe that sets or waits.
    void set_event(pipe_t pipe, int event, int id, Where where);
    void take_event(pipe_t pipe, int event, int id);
    void send_cross(pipe_t pipe, int target_core, int id);
    void take_cross(pipe_t pipe, int id);

private:
    Instruction& push(const Call& call, Kind kind, uint64_t sequence);
    void push(const Mutation::Flag& flag, uint64_t sequence);

    Instruction dropped_;  // what a mutation drops is written here
};

// What the host thread is doing: the core whose program or instruction runs, and the call in hand.
struct Running {
    Core* core = nullptr;
    Call call{};
};
inline thread_local Running running;

inline std::string error_prefix()
{
    const Call& call = running.call;
    return running.core->describe() + ", " + name(call.pipe) + ", " + describe(call) + ": ";
}

// Ends the launch with a message about the call in hand.
[[noreturn, gnu::cold, gnu::format(printf, 1, 2)]] inline void fail(const char* format, ...)
{
    va_list list;
    va_start(list, format);
    std::string text = format_list(format, list);
    va_end(list);
    throw Error(error_prefix() + text);
}

}  // namespace twin

// What a group must look like when nothing moves any more: programs finished, queues empty, flags down.
#pragma once
#include "group.h"

namespace twin {

inline std::string describe_wait(const ProgramWait& wait)
{
    std::string where = wait.call.name + (" (" + to_string(wait.call.where) + ")");
    switch (wait.kind) {
        case ProgramWait::kRoom:
            return format("%s: the queue of %s is full", where.c_str(), name(wait.call.pipe));
        case ProgramWait::kFlag:
            return format("%s: flag %s %d", where.c_str(), kEventPipes[wait.event].name, wait.flag);
        case ProgramWait::kCross:
            return format("%s: cross-core flag %d", where.c_str(), wait.flag);
        default:
            return format("%s: queues that are not empty", where.c_str());
    }
}

inline std::string describe_head(const Instruction& head)
{
    std::string where = head.call.name + (" (" + to_string(head.call.where) + ")");
    if (head.kind == Kind::kWaitFlag) {
        return format("%s: flag %s %d", where.c_str(), kEventPipes[head.event].name, head.flag);
    }
    if (head.kind == Kind::kCrossWait) return format("%s: cross-core flag %d", where.c_str(), head.flag);
    return where;
}

inline std::string deadlock_report(Group& group)
{
    std::string text = format("deadlock in group %d; every core and pipe and the call it waits at:", group.index());
    for (Core& c : group.core) {
        text += "\n  " + c.describe() + ", program: ";
        text += c.program.finished() ? "finished" : describe_wait(c.wait);
        for (int q = 0; q < kPipes; ++q) {
            if (c.queue[q].empty()) continue;
            text += "\n  " + c.describe() + ", " + kQueueName[q] + ": " + describe_head(c.queue[q].front());
        }
    }
    return text;
}

inline std::string flags_left_report(Group& group)
{
    std::string text;
    for (Core& c : group.core) {
        for (int e = 0; e < kEvents; ++e) {
            for (uint32_t id = 0; id < qbsa::arch::kEventIds; ++id) {
                if (!c.event_set[e][id]) continue;
                text += format("\n  %s: flag %s %u, set at %s", c.describe().c_str(), kEventPipes[e].name, id,
                               to_string(c.event_set_at[e][id]).c_str());
            }
        }
        for (int id = 0; id < kCrossFlags; ++id) {
            if (c.cross_count[id] == 0) continue;
            text += format("\n  %s: cross-core flag %d counts %u", c.describe().c_str(), id, c.cross_count[id]);
        }
    }
    if (text.empty()) return text;
    return format("flags left set at the end of group %d:", group.index()) + text;
}

inline void Group::check_end()
{
    for (Core& c : core) {
        if (!c.program.finished() || !c.drained()) throw Error(deadlock_report(*this));
    }
    std::string left = flags_left_report(*this);
    if (!left.empty()) throw Error(left);
}

}  // namespace twin

// What a group must look like when nothing moves any more: programs finished, queues empty, flags down.
#pragma once
#include "group.h"

namespace twin {

inline std::string describe_flag(const Core& core, int event, int id)
{
    return format("flag %s %d%s", kEventPipes[event].name, id, names_of(core).event(core.is_aic(), event, id).c_str());
}
inline std::string describe_cross(const Core& core, int id)
{
    return format("cross-core flag %d%s", id, names_of(core).cross(id).c_str());
}

inline std::string describe_wait(const Core& core)
{
    const ProgramWait& wait = core.wait;
    const std::string where = describe(wait.call);
    switch (wait.kind) {
        case ProgramWait::kRoom:
            return format("%s: the queue of %s is full", where.c_str(), name(wait.call.pipe));
        case ProgramWait::kFlag:
            return where + ": " + describe_flag(core, wait.event, wait.flag);
        case ProgramWait::kCross:
            return where + ": " + describe_cross(core, wait.flag);
        default:
            return format("%s: queues that are not empty", where.c_str());
    }
}

inline std::string describe_head(const Core& core, const Instruction& head)
{
    const std::string where = describe(head.call);
    if (head.kind == Kind::kWaitFlag) return where + ": " + describe_flag(core, head.event, head.flag);
    if (head.kind == Kind::kCrossWait) return where + ": " + describe_cross(core, head.flag);
    return where;
}

inline std::string deadlock_report(Group& group)
{
    std::string text = format("deadlock in group %d; every core and pipe and the call it waits at:", group.index());
    for (Core& c : group.core) {
        text += "\n  " + c.describe() + ", program: ";
        text += c.program.finished() ? "finished" : describe_wait(c);
        for (int q = 0; q < kPipes; ++q) {
            if (c.queue[q].empty()) continue;
            text += "\n  " + c.describe() + ", " + kQueueName[q] + ": " + describe_head(c, c.queue[q].front());
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
                text += format("\n  %s: %s, set at %s", c.describe().c_str(), describe_flag(c, e, int(id)).c_str(),
                               to_string(c.event_set_at[e][id]).c_str());
            }
        }
        for (int id = 0; id < kCrossFlags; ++id) {
            if (c.cross_count[id] == 0) continue;
            text +=
                format("\n  %s: %s counts %u", c.describe().c_str(), describe_cross(c, id).c_str(), c.cross_count[id]);
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

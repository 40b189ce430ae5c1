// Two adverse orders. Both obey every flag and barrier, so a kernel that relies on nothing else gives equal bits.
#pragma once
#include <utility>

#include "group.h"

namespace twin {

// Places of the data flow from GM back to GM; position is priority.
struct Stage {
    bool aic;
    pipe_t pipe;
};
constexpr Stage kStages[] = {{true, PIPE_MTE2},  {true, PIPE_MTE1}, {true, PIPE_M},    {true, PIPE_FIX},
                             {false, PIPE_MTE2}, {false, PIPE_V},   {false, PIPE_MTE3}};
constexpr int kStageCount = sizeof(kStages) / sizeof(kStages[0]);

inline Head head_at(Group& group, const Stage& stage, int core)
{
    Core& c = group.core[core];
    const int q = queue_index(stage.pipe);
    return c.is_aic() == stage.aic && c.head_is_ready(q) ? Head{&c, q} : Head{};
}

// Data is taken as early as flags allow: what came too late is missed.
class ConsumersFirst final : public Order {
public:
    Head next(Group& group) const override
    {
        for (int stage = kStageCount - 1; stage >= 0; --stage) {
            for (int core = kCores - 1; core >= 0; --core) {
                const Head head = head_at(group, kStages[stage], core);
                if (head.core) return head;
            }
        }
        return {};
    }
};

// Data is written as early as flags allow: what was still needed is lost. A transfer of MTE2 or MTE3 moreover waits for
// all younger ones of its pipe that neither flag nor barrier separates from it.
class ProducersFirst final : public Order {
public:
    Head next(Group& group) const override
    {
        for (const Stage& stage : kStages) {
            for (int core = 0; core < kCores; ++core) {
                const Head head = head_at(group, stage, core);
                if (!head.core) continue;
                if (stage.pipe == PIPE_MTE2 || stage.pipe == PIPE_MTE3) delay(head.core->queue[head.queue]);
                return head;
            }
        }
        return {};
    }

private:
    static void delay(Queue& queue)
    {
        if (queue.size() < 2) return;
        Instruction& oldest = queue.at(0);
        Instruction& next = queue.at(1);
        if (oldest.kind == Kind::kRun && next.kind == Kind::kRun) std::swap(oldest, next);
    }
};

}  // namespace twin

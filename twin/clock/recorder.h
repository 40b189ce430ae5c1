// Watches a launch and keeps, per core, what the clock needs of it.
#pragma once
#include <algorithm>

#include "../engine/group.h"
#include "cost_of.h"

namespace twin::clock {

class Recorder final : public Observer {
public:
    Recorder(int groups, const Costs& costs) : costs_(costs), programs_(groups) {}

    void executed(const Core& core, const Instruction& instruction) override
    {
        Program& program = programs_[core.group->index()][core.index];
        Step step = flag_step(core, instruction.call, instruction.kind, instruction.event, instruction.flag,
                              instruction.target_core);
        step.pipe = uint8_t(queue_index(instruction.call.pipe));
        step.position = launch_ + 2 * instruction.sequence + 2;
        if (instruction.kind == Kind::kRun) cost_of(costs_, instruction, ops_of_last_vector_call(), step, program);
        if (step.transfer != kNoTransfer) {
            uint64_t& begin = program.transfers.back().begin;
            begin = core.group->launch().gm.placed(begin);
        }
        program.steps.push_back(step);
    }

    void scalar(const Core& core, const ScalarCall& scalar) override
    {
        Program& program = programs_[core.group->index()][core.index];
        Step step = flag_step(core, scalar.call, scalar.kind, scalar.event, scalar.flag, scalar.target_core);
        step.pipe = kScalar;
        step.position = launch_ + 2 * core.issued + 1;
        if (scalar.kind == Kind::kRun) step.busy = costs_.scalar_read;
        program.steps.push_back(step);
    }

    // Between two launches on one stream: no core starts the next before all have ended this one.
    void next_launch()
    {
        launch_ += uint64_t{1} << 48;
        for (GroupPrograms& group : programs_) {
            for (Program& program : group) {
                Step step{Kind::kBarrier, kScalar, 0, kLaunchEnd, sites_.of({"end of launch", PIPE_ALL, {}}),
                          kNoTransfer,    0};
                step.position = launch_;
                program.steps.push_back(step);
            }
        }
    }

    // In program order. Once, after the last launch.
    std::vector<GroupPrograms>& programs()
    {
        for (GroupPrograms& group : programs_) {
            for (Program& program : group) {
                std::stable_sort(program.steps.begin(), program.steps.end(),
                                 [](const Step& a, const Step& b) { return a.position < b.position; });
            }
        }
        return programs_;
    }
    Sites& sites() { return sites_; }

private:
    Step flag_step(const Core& core, const Call& call, Kind kind, int event, int flag, int target_core)
    {
        Step step{kind, 0, uint8_t(core.index), 0, 0, kNoTransfer, 0};
        if (kind == Kind::kSetFlag || kind == Kind::kWaitFlag) {
            step.flag = uint16_t(event_slot(event, flag));
            step.site =
                sites_.of(call, kEventPipes[event].name, flag, names_of(core).event(core.is_aic(), event, flag));
        } else if (kind == Kind::kCrossSet || kind == Kind::kCrossWait) {
            step.flag = uint16_t(kCrossSlot + flag);
            if (kind == Kind::kCrossSet) step.flag_core = uint8_t(target_core);
            step.site = sites_.of(call, name(call.pipe), flag, names_of(core).cross(flag));
        } else {
            step.site = sites_.of(call);
        }
        return step;
    }

    const Costs costs_;
    std::vector<GroupPrograms> programs_;
    Sites sites_;
    uint64_t launch_ = 0;  // position at which it begins
};

}  // namespace twin::clock

// One AIC group: AIC and two AIVs, their memories, and the loop that runs them.
#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "core.h"
#include "gm_ranges.h"
#include "log.h"
#include "order.h"
#include "race.h"
#include "vector_run.h"

namespace twin {

// What all groups of a launch share; while they run, nothing but stop and gm_accesses changes.
struct LaunchContext {
    int groups = 1;
    std::function<void()> program;  // run by every core
    GmRanges gm;
    const Order* order = nullptr;
    Observer* observer = nullptr;  // may be null
    Names names;
    int kernel = 0;
    const Mutation* mutation = nullptr;  // may be null
    EffectLog* log = nullptr;            // may be null
    bool wait_blocks_core = false;
    bool race = false;
    GmAccesses gm_accesses;  // race mode
    std::atomic<bool> stop{false};
};

class Group {
public:
    Core core[kCores];
    GroupMemory memory;
    VectorCounts vector_counts;  // of all groups that this object has run
    std::unique_ptr<RaceCheck> race;
    std::unique_ptr<Footprint> footprint;  // of the vector function that ran last; race mode and log

    Group()
    {
        for (int i = 0; i < kCores; ++i) {
            core[i].group = this;
            core[i].index = i;
        }
    }

    int index() const { return index_; }
    const LaunchContext& launch() const { return *launch_; }
    const Names& names() const { return launch_->names; }
    bool cancelled() const { return cancelled_; }

    // Runs one group to its end. Returns the error text, empty if there is none.
    std::string run(LaunchContext& launch, int index)
    {
        launch_ = &launch;
        index_ = index;
        cancelled_ = false;
        error_.clear();
        if (kChecked) memory.reset();
        if (launch.race) race = std::make_unique<RaceCheck>(index, launch.gm, launch.names, launch.gm_accesses);
        if ((launch.race || launch.log) && !footprint) footprint = std::make_unique<Footprint>();
        for (Core& c : core) {
            c.reset();
            c.program.start([this] { run_program(); });
        }
        try {
            while (error_.empty() && !launch.stop.load(std::memory_order_relaxed) && step()) {
            }
            if (error_.empty() && !launch.stop.load(std::memory_order_relaxed)) check_end();
        } catch (const std::exception& e) {
            error_ = e.what();
        }
        cancel();
        running.core = nullptr;
        return error_;
    }

private:
    // Lets every program go on that can, then runs instructions until none is ready. False: nothing moved.
    bool step()
    {
        bool moved = false;
        for (Core& c : core) {
            if (c.program.finished() || !c.program_can_go_on()) continue;
            running.core = &c;
            c.program.resume();
            moved = true;
            if (!error_.empty()) return true;
        }
        for (Head head = launch_->order->next(*this); head.core; head = launch_->order->next(*this)) {
            execute(*head.core, head.core->queue[head.queue]);
            moved = true;
        }
        return moved;
    }

    void execute(Core& c, Queue& queue)
    {
        Instruction& i = queue.front();
        running.core = &c;
        running.call = i.call;
        if (race) race->starts(c, i);
        switch (i.kind) {
            case Kind::kRun:
                i.run(i.closure);
                if (race) race->ran(c, i, *footprint);
                break;
            case Kind::kBarrier:
                break;  // a queue is in order already
            case Kind::kSetFlag:
                c.set_event(i.call.pipe, i.event, i.flag, i.call.where);
                break;
            case Kind::kWaitFlag:
                c.take_event(i.call.pipe, i.event, i.flag);
                break;
            case Kind::kCrossSet:
                c.send_cross(i.call.pipe, i.target_core, i.flag);
                break;
            case Kind::kCrossWait:
                c.take_cross(i.call.pipe, i.flag);
                break;
        }
        if (launch_->observer) launch_->observer->executed(c, i);
        if (launch_->log) launch_->log->instruction(c, i, footprint.get(), launch_->names, launch_->gm);
        queue.pop();
    }

    void run_program()
    {
        if (cancelled_) return;
        try {
            launch_->program();
        } catch (const Cancelled&) {
        } catch (const std::exception& e) {
            if (error_.empty()) error_ = e.what();
        }
    }

    void cancel()
    {
        cancelled_ = true;
        for (Core& c : core) {
            running.core = &c;
            while (!c.program.finished()) c.program.resume();
        }
    }

    void check_end();

    const LaunchContext* launch_ = nullptr;
    int index_ = 0;
    bool cancelled_ = false;
    std::string error_;
};

inline std::string Core::describe() const
{
    std::string who = is_aic() ? "AIC" : "AIV" + std::to_string(aiv());
    return who + " group " + std::to_string(group->index());
}

inline void Core::suspend_until(const ProgramWait& reason)
{
    wait = reason;
    program.suspend();
    if (group->cancelled()) throw Cancelled();
    running.call = reason.call;
    wait = {};
}

inline Instruction& Core::reserve(Call call, Kind kind)
{
    const uint64_t sequence = issued++;
    const LaunchContext& launch = group->launch();
    if (const Mutation::Edit* edit = launch.mutation ? launch.mutation->at(launch.kernel, index, sequence) : nullptr) {
        for (const Mutation::Flag& flag : edit->added) push(flag, sequence);
        if (edit->drop) return dropped_;
        if (edit->moves) call.pipe = edit->pipe;
    }
    return push(call, kind, sequence);
}

inline bool Core::next_is_dropped()
{
    const LaunchContext& launch = group->launch();
    const Mutation::Edit* edit = launch.mutation ? launch.mutation->at(launch.kernel, index, issued) : nullptr;
    ++issued;
    return edit && edit->drop;
}

inline Instruction& Core::push(const Call& call, Kind kind, uint64_t sequence)
{
    if (queue[queue_index(call.pipe)].full()) suspend_until({ProgramWait::kRoom, call, 0, 0});
    Instruction& slot = queue[queue_index(call.pipe)].push();
    slot.call = call;
    slot.kind = kind;
    slot.accesses = 0;
    slot.sequence = sequence;
    if (group->race) group->race->issued(*this, slot);
    return slot;
}

inline void Core::push(const Mutation::Flag& flag, uint64_t sequence)
{
    Instruction& slot = push({"mutation", flag.pipe, Where::here()}, flag.kind, sequence);
    slot.event = uint8_t(flag.event);
    slot.flag = uint8_t(flag.kind == Kind::kCrossSet ? cross_id_at_target(flag.id) : flag.id);
    slot.target_core = uint8_t(cross_target(flag.id));
}

inline std::string EffectLog::where(const Core& core)
{
    return format("kernel=%d group=%d", core.group->launch().kernel, core.group->index());
}

inline void Core::set_event(pipe_t pipe, int event, int id, Where where)
{
    if (event_set[event][id]) {
        fail("flag %s %d%s is already set, by SetFlag at %s; it must be waited for before it is set again",
             kEventPipes[event].name, id, group->names().event(is_aic(), event, id).c_str(),
             to_string(event_set_at[event][id]).c_str());
    }
    event_set[event][id] = true;
    event_set_at[event][id] = where;
    if (group->race) group->race->set_event(*this, pipe, event, id);
}

inline void Core::take_event(pipe_t pipe, int event, int id)
{
    event_set[event][id] = false;
    if (group->race) group->race->take_event(*this, pipe, event, id);
}

inline void Core::send_cross(pipe_t pipe, int target_core, int id)
{
    Core& target = group->core[target_core];
    if (target.cross_count[id] == qbsa::arch::kCrossFlagMax) {
        fail("flag %d%s of %s already counts %u, the most it can", id, group->names().cross(id).c_str(),
             target.describe().c_str(), qbsa::arch::kCrossFlagMax);
    }
    ++target.cross_count[id];
    if (group->race) group->race->send_cross(*this, pipe, target_core, id);
}

inline void Core::take_cross(pipe_t pipe, int id)
{
    --cross_count[id];
    if (group->race) group->race->take_cross(*this, pipe, id);
}

inline const Names& names_of(const Core& core) { return core.group->names(); }

inline bool drops_fence(const Core& core, int function, int index)
{
    const Mutation* mutation = core.group->launch().mutation;
    return mutation && mutation->drops_fence(VectorFunctions::instance().name(function), index);
}

inline Head ProgramOrder::next(Group& group) const
{
    for (Core& c : group.core) {
        Head best;
        uint64_t oldest = UINT64_MAX;
        for (int q = 0; q < kPipes; ++q) {
            if (!c.head_is_ready(q) || c.queue[q].front().sequence >= oldest) continue;
            oldest = c.queue[q].front().sequence;
            best = {&c, q};
        }
        if (best.core) return best;
    }
    return {};
}

}  // namespace twin

#include "end_of_group.h"

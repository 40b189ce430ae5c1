// Flags between pipes, barriers, and flags between AIC and AIV.
#pragma once
#include "../engine/issue.h"

namespace twin {

// On silicon a SetFlag or WaitFlag whose pipes the core does not have vanishes without a word.
inline Core& begin_event(const Call& call, int event, int32_t id)
{
    Core& core = caller(call);
    const EventPipes& pipes = kEventPipes[event];
    if (!core.has_pipe(pipes.source) || !core.has_pipe(pipes.destination)) {
        fail("event %s does not exist on an %s and would vanish silently", pipes.name, core.is_aic() ? "AIC" : "AIV");
    }
    check_range("eventID", id, 0, qbsa::arch::kEventIds - 1);
    return core;
}

inline void set_flag(const Call& call, int event, int32_t id)
{
    Core& core = begin_event(call, event, id);
    if (call.pipe == PIPE_S) {
        core.set_event(PIPE_S, event, id, call.where);
        return tell_scalar(core, {call, Kind::kSetFlag, event, id});
    }
    Instruction& slot = core.reserve(call, Kind::kSetFlag);
    slot.event = uint8_t(event);
    slot.flag = uint8_t(id);
}

inline void wait_flag(const Call& call, int event, int32_t id)
{
    Core& core = begin_event(call, event, id);
    if (call.pipe == PIPE_S) {
        ProgramWait reason{ProgramWait::kFlag, call, event, id};
        if (!core.event_set[event][id]) core.suspend_until(reason);
        core.take_event(PIPE_S, event, id);
        return tell_scalar(core, {call, Kind::kWaitFlag, event, id});
    }
    Instruction& slot = core.reserve(call, Kind::kWaitFlag);
    slot.event = uint8_t(event);
    slot.flag = uint8_t(id);
}

// The AIC's flags n and n + 16 meet flag n of AIV0 and of AIV1.
inline Core& begin_cross(const Call& call, uint16_t id)
{
    Core& core = begin(call);
    uint16_t of_aiv = core.is_aic() && id >= qbsa::arch::kCrossFlagAiv1 ? id - qbsa::arch::kCrossFlagAiv1 : id;
    if (of_aiv >= qbsa::arch::kCrossFlagIds) {
        fail("flagId %u is not one of 0..%u%s", id, qbsa::arch::kCrossFlagIds - 1,
             core.is_aic() ? " (AIV0) or these + 16 (AIV1)" : "");
    }
    return core;
}

inline void cross_set(const Call& call, uint16_t id)
{
    Core& core = begin_cross(call, id);
    const int target = core.cross_target(id);
    const int at_target = core.cross_id_at_target(id);
    if (call.pipe == PIPE_S) {
        core.send_cross(PIPE_S, target, at_target);
        return tell_scalar(core, {call, Kind::kCrossSet, 0, at_target, target});
    }
    Instruction& slot = core.reserve(call, Kind::kCrossSet);
    slot.target_core = uint8_t(target);
    slot.flag = uint8_t(at_target);
}

inline void cross_wait(const Call& call, uint16_t id)
{
    Core& core = begin_cross(call, id);
    if (call.pipe == PIPE_S || core.group->launch().wait_blocks_core) {
        ProgramWait reason{ProgramWait::kCross, call, 0, id};
        if (core.cross_count[id] == 0) core.suspend_until(reason);
        core.take_cross(PIPE_S, id);
        return tell_scalar(core, {call, Kind::kCrossWait, 0, id});
    }
    core.reserve(call, Kind::kCrossWait).flag = uint8_t(id);
}

}  // namespace twin

namespace AscendC {

template <HardEvent event>
void SetFlag(int32_t eventID, twin::Where where = twin::Where::here())
{
    constexpr twin::EventPipes kPipes = twin::kEventPipes[int(event)];
    static_assert(kPipes.source != kPipes.destination, "order a pipe with itself by PipeBarrier");
    twin::set_flag({"SetFlag", kPipes.source, where}, int(event), eventID);
}

template <HardEvent event>
void WaitFlag(int32_t eventID, twin::Where where = twin::Where::here())
{
    constexpr twin::EventPipes kPipes = twin::kEventPipes[int(event)];
    static_assert(kPipes.source != kPipes.destination, "order a pipe with itself by PipeBarrier");
    twin::wait_flag({"WaitFlag", kPipes.destination, where}, int(event), eventID);
}

template <pipe_t pipe>
void PipeBarrier(twin::Where where = twin::Where::here())
{
    static_assert(pipe != PIPE_S, "the scalar pipe is in order already");
    twin::Call call{"PipeBarrier", pipe, where};
    twin::Core& core = twin::begin(call);
    if (pipe != PIPE_ALL) {
        core.reserve(call, twin::Kind::kBarrier);
        return;
    }
    const twin::LaunchContext& launch = core.group->launch();
    if (launch.log) launch.log->barrier_of_all(core, call, core.issued);
    if (core.next_is_dropped()) return;
    if (!core.drained()) core.suspend_until({twin::ProgramWait::kDrain, call, 0, 0});
    if (core.group->race) core.group->race->drained(core);
    twin::tell_scalar(core, {call, twin::Kind::kBarrier});
}

template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, twin::Where where = twin::Where::here())
{
    static_assert(modeId == 4, "the twin has mode 4 of cross-core flags only: one AIC with one AIV");
    static_assert(pipe != PIPE_ALL, "a cross-core flag belongs to one pipe");
    twin::cross_set({"CrossCoreSetFlag", pipe, where}, flagId);
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, twin::Where where = twin::Where::here())
{
    static_assert(modeId == 4, "the twin has mode 4 of cross-core flags only: one AIC with one AIV");
    static_assert(pipe != PIPE_ALL, "a cross-core flag belongs to one pipe");
    twin::cross_wait({"CrossCoreWaitFlag", pipe, where}, flagId);
}

}  // namespace AscendC

// The way of a device call into the engine: which core, what it touches, what it will do.
#pragma once
#include <initializer_list>

#include "group.h"

namespace twin {

// The core that makes the call.
inline Core& caller(const Call& call)
{
    running.call = call;
    if (!running.core) throw Error(std::string(call.name) + " outside of a launch");
    return *running.core;
}

inline void tell_scalar(Core& core, const ScalarCall& call)
{
    if (Observer* observer = core.group->launch().observer) observer->scalar(core, call);
}

// First statement of a device call: the core that makes it, which must have the pipe.
inline Core& begin(const Call& call)
{
    Core& core = caller(call);
    if (call.pipe != PIPE_ALL && !core.has_pipe(call.pipe)) {
        fail("pipe %s belongs to the %s", name(call.pipe), core.is_aic() ? "AIVs" : "AIC");
    }
    return core;
}

inline void check_range(const char* parameter, int64_t value, int64_t low, int64_t high)
{
    if (value < low || value > high) {
        fail("%s is %lld, allowed is %lld..%lld", parameter, static_cast<long long>(value), static_cast<long long>(low),
             static_cast<long long>(high));
    }
}

inline void check_multiple(const char* parameter, int64_t value, int64_t of)
{
    if (value % of != 0) {
        fail("%s is %lld, not a multiple of %lld", parameter, static_cast<long long>(value),
             static_cast<long long>(of));
    }
}

inline void check_memory(const char* operand, const Region& region, Memory expected)
{
    if (region.memory != expected) fail("%s is in %s, must be in %s", operand, name(region.memory), name(expected));
}

// A stride of a call, one more where a mutation asks for it; unused: the call has no second step.
template <class T>
void mutate_stride(const Core& core, const Call& call, const char* parameter, bool used, T& value)
{
    const LaunchContext& launch = core.group->launch();
    if (!used) return;
    if (launch.log) launch.log->stride(call, parameter);
    if (launch.mutation && launch.mutation->changes_stride(call, parameter)) ++value;
}

// Bytes from the start of a tensor to an element.
inline uint64_t mutated_offset(const Region& tensor, uint64_t bytes)
{
    const Mutation* mutation = running.core ? running.core->group->launch().mutation : nullptr;
    return mutation ? mutation->offset(tensor, bytes) : bytes;
}

// A value of a field that the device knows and the twin does not offer.
inline void check_unused(const char* parameter, int64_t value, int64_t required = 0)
{
    if (value != required) {
        fail("%s is %lld; the twin offers %lld only", parameter, static_cast<long long>(value),
             static_cast<long long>(required));
    }
}

inline void check_gm(const Core& core, const char* operand, uint64_t begin, uint64_t end, bool write)
{
    const GmRanges& gm = core.group->launch().gm;
    if (!kChecked || gm.empty() || gm.allows(begin, end, write)) return;
    fail("%s %s %llu bytes of GM that no tensor of the call owns; nearest is %s", operand, write ? "writes" : "reads",
         static_cast<unsigned long long>(end - begin), gm.nearest(begin, end).c_str());
}

inline void check_access(const Core& core, const Access& a)
{
    if (a.begin % a.align != 0) {
        fail("%s address %#llx is not a multiple of %u", a.operand, static_cast<unsigned long long>(a.begin), a.align);
    }
    uint64_t begin = a.hull_begin();
    uint64_t end = a.hull_end();
    if (a.region.memory != Memory::kGm) {
        if (begin < a.region.begin || end > a.region.end) {
            fail("%s [%#llx, %#llx) exceeds %s tensor of %llu bytes", a.operand, static_cast<unsigned long long>(begin),
                 static_cast<unsigned long long>(end), name(a.region.memory),
                 static_cast<unsigned long long>(a.region.end - a.region.begin));
        }
        return;
    }
    const GmRanges& gm = core.group->launch().gm;
    if (!kChecked || gm.empty() || gm.allows(begin, end, a.write)) return;
    a.for_each_run([&](uint64_t run) { check_gm(core, a.operand, run, run + a.run_bytes, a.write); });
}

// Where an address of the region lies on the host.
inline Bytes bytes_at(const Core& core, const Region& region, uint64_t address)
{
    if (region.memory == Memory::kGm) return {reinterpret_cast<uint8_t*>(address), nullptr};
    int aiv = region.aiv == kRunningAiv ? core.aiv() : region.aiv;
    if (region.memory == Memory::kUb && aiv < 0) fail("UB belongs to the AIVs");
    return core.group->memory.at(region.memory, aiv) + int64_t(address);
}
inline Bytes bytes_at(const Core& core, const Access& a) { return bytes_at(core, a.region, a.begin); }

// Checks the accesses and queues the body on the pipe. The body runs later, with the arguments it captured by value.
template <class Body>
void issue(Core& core, const Call& call, std::initializer_list<Access> accesses, const Body& body)
{
    for (const Access& a : accesses) check_access(core, a);
    Instruction& slot = core.reserve(call, Kind::kRun);
    for (const Access& a : accesses) slot.access[slot.accesses++] = a;
    slot.set_body(body);
}

// UB -> anywhere outside the group must not carry bytes that nothing has written.
inline void check_initialised(Bytes from, uint32_t bytes, const char* operand, uint64_t address)
{
    if (!kChecked || !from.shadow) return;
    if (const void* hole = std::memchr(from.shadow, 0, bytes)) {
        uint64_t at = address + uint64_t(static_cast<const uint8_t*>(hole) - from.shadow);
        fail("%s byte %#llx was never written", operand, static_cast<unsigned long long>(at));
    }
}

}  // namespace twin

// The AICPU kernel as a host function.
#include "../metadata/launch.aicpu"

// Runs it on a copy of `bytes` bytes, as a launch does. Returns its result; *at_barrier: the plan's first word when the
// stores were published, *barriers: how often they were.
extern "C" uint32_t launch_aicpu(const void* args, uint64_t bytes, int32_t* at_barrier, int32_t* barriers)
{
    qbsa::ScheduleArgs copy;
    if (bytes != sizeof(copy)) return UINT32_MAX;
    __builtin_memcpy(&copy, args, bytes);
    AscendC::watched_word = reinterpret_cast<const int32_t*>(copy.plan);
    AscendC::barriers = 0;
    const uint32_t result = qbsa_schedule_kernel(&copy);
    *at_barrier = AscendC::word_at_barrier;
    *barriers = AscendC::barriers;
    return result;
}

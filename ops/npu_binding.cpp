// The only torch C++ of the package: puts a call of libqbsa_npu.so into torch_npu's task queue. Python (ops/npu.py) has
// validated, allocated and filled the record; what a record or a tensor means is not known here.
#include <ATen/core/Tensor.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "../kernels_ascendc/qbsa.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"
#include "torch_npu/csrc/framework/OpCommand.h"

namespace {

template <class Args>
using Entry = int32_t (*)(const Args*, void*);

// record: the bytes of Args as int64 words. tensors: all that the record points into; they live until the launch.
template <class Args>
void enqueue(const char* name, Entry<Args> entry, at::IntArrayRef record, at::TensorList tensors)
{
    TORCH_CHECK(record.size() * sizeof(int64_t) == sizeof(Args), name, ": a record has ", sizeof(Args), " bytes; got ",
                record.size() * sizeof(int64_t));
    Args args;
    std::memcpy(&args, record.data(), sizeof args);
    const c10::OptionalDeviceGuard guard(tensors.front().device());
    // Without draining the task queue: RunOpApiV2 keeps this launch behind what is queued.
    aclrtStream stream = c10_npu::getCurrentNPUStream().stream(false);
    at_npu::native::OpCommand::RunOpApiV2(name, [name, entry, args, stream, kept = tensors.vec()]() -> int {
        const int32_t code = entry(&args, stream);
        TORCH_CHECK(code == 0, name, ": ", qbsa_last_error());
        return 0;
    });
}

void attention(at::IntArrayRef record, at::TensorList tensors)
{
    enqueue<qbsa::AttentionArgs>("qbsa_attention", qbsa_attention, record, tensors);
}

void schedule(at::IntArrayRef record, at::TensorList tensors)
{
    enqueue<qbsa::ScheduleArgs>("qbsa_schedule", qbsa_schedule, record, tensors);
}

}  // namespace

// Defined by ops/npu.py.
TORCH_LIBRARY_IMPL(qbsa, PrivateUse1, library)
{
    library.impl("enqueue_attention", TORCH_FN(attention));
    library.impl("enqueue_schedule", TORCH_FN(schedule));
}

// What the virtual device exports beyond the CANN functions of runtime.cpp.
#pragma once
#include <cstddef>
#include <cstdint>

// Runs a kernel on a copy of its arguments: null, or the reason of a failure (valid until the thread's next run).
typedef const char* (*VirtualKernel)(const void* args, int32_t cores);

extern "C" {
// Queues a kernel on an aclrtStream, as a launch by <<<>>> does: aclrtGetLastError() tells whether it was taken.
void virtual_device_launch(VirtualKernel kernel, int32_t cores, void* stream, const void* args, size_t bytes);

// Makes later asynchronous copies slow, to show work that does not wait for them: host_ms before a copy is queued on
// its stream, stream_ms in the stream.
void virtual_device_slow_copies(int32_t host_ms, int32_t stream_ms);

// The next launch is refused, or the next kernel to run fails.
void virtual_device_refuse_launch();
void virtual_device_fail_kernel();

// Kernels that have run since the process began.
int64_t virtual_device_kernels();
}

// The device call of metadata/launch.aicpu, on the host.
#pragma once
#include <atomic>

namespace AscendC {

inline void DataStoreBarrier() { std::atomic_thread_fence(std::memory_order_seq_cst); }

}  // namespace AscendC

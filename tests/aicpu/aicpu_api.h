// Stands in for CANN's header where the AICPU kernel runs on a host.
#pragma once
#include <cstdint>

#define __global__
#define __aicpu__

namespace AscendC {

// Stores before the barrier are visible to other units after it; here, what they left in one word.
inline const int32_t* watched_word = nullptr;
inline int32_t word_at_barrier = 0;
inline int barriers = 0;

inline void DataStoreBarrier()
{
    ++barriers;
    word_at_barrier = watched_word ? *watched_word : 0;
}

}  // namespace AscendC

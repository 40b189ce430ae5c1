// LocalMemBar: order of UB accesses inside a vector function.
#pragma once
#include "register.h"

namespace AscendC {
namespace Reg {

// The host keeps program order anyway; race mode asks for it.
template <MemType src, MemType dst>
QBSA_INLINE void LocalMemBar()
{
    constexpr bool kStoreToLoad = src == MemType::VEC_STORE && dst == MemType::VEC_LOAD;
    constexpr bool kLoadToStore = src == MemType::VEC_LOAD && dst == MemType::VEC_STORE;
    constexpr bool kStoreToStore = src == MemType::VEC_STORE && dst == MemType::VEC_STORE;
    static_assert(kStoreToLoad || kLoadToStore || kStoreToStore,
                  "LocalMemBar: the twin orders vector loads and stores only");
    twin::on_vector_op(twin::VectorOp::kMemBar);
    twin::on_vector_fence(kStoreToLoad   ? twin::VectorFence::kStoreToLoad
                          : kLoadToStore ? twin::VectorFence::kLoadToStore
                                         : twin::VectorFence::kStoreToStore);
}

}  // namespace Reg
}  // namespace AscendC

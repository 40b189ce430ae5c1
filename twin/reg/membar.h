// LocalMemBar: order of UB accesses inside a vector function.
#pragma once
#include "register.h"

namespace AscendC {
namespace Reg {

// The host keeps program order anyway; race mode asks for the first two kinds.
template <MemType src, MemType dst>
QBSA_INLINE void LocalMemBar()
{
    static_assert((src == MemType::VEC_STORE && dst == MemType::VEC_LOAD) ||
                      (src == MemType::VEC_LOAD && dst == MemType::VEC_STORE) ||
                      (src == MemType::VEC_STORE && dst == MemType::VEC_STORE),
                  "LocalMemBar: the twin orders vector loads and stores only");
    twin::on_vector_op(twin::VectorOp::kMemBar);
    if (src != dst) twin::on_vector_fence(dst == MemType::VEC_LOAD);
}

}  // namespace Reg
}  // namespace AscendC

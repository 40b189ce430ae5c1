// What a vector function tells the engine while it runs: every instruction, every byte it touches.
#pragma once
#include <cstdint>
#include <initializer_list>

#include "../reg/vector_op.h"
#include "config.h"

namespace twin {

// CTRL of the AIV whose vector function runs; the engine sets it before it calls one. Bit 60: float modes are global,
// 48: keep inf and NaN, 50: keep NaN where e4m3 saturates.
constexpr uint64_t kCtrlDefault = uint64_t{1} << 60;
inline thread_local uint64_t running_ctrl = kCtrlDefault;

// Kinds of LocalMemBar.
enum class VectorFence { kStoreToLoad, kLoadToStore, kStoreToStore, kNone };

#if QBSA_TWIN_CHECKED
void on_vector_op(VectorOp op);
// A register gets a value computed from those of others, at the time of the call.
void on_vector_value(uintptr_t reg, std::initializer_list<uintptr_t> sources);
// reg: the register, or the first of two.
void on_vector_load(const void* from, uint32_t bytes, uint32_t align, VectorOp op, uintptr_t reg);
void on_vector_store(void* to, uint32_t bytes, uint32_t align, VectorOp op, uintptr_t reg);
void on_vector_fence(VectorFence kind);
// A store of which only the bytes with active[i] != 0 are written.
void on_vector_store_bytes(void* to, const uint8_t* active, uint32_t bytes, uint32_t align, VectorOp op, uintptr_t reg);
#else
inline void on_vector_op(VectorOp) {}
inline void on_vector_value(uintptr_t, std::initializer_list<uintptr_t>) {}
inline void on_vector_load(const void*, uint32_t, uint32_t, VectorOp, uintptr_t) {}
inline void on_vector_store(void*, uint32_t, uint32_t, VectorOp, uintptr_t) {}
inline void on_vector_fence(VectorFence) {}
inline void on_vector_store_bytes(void*, const uint8_t*, uint32_t, uint32_t, VectorOp, uintptr_t) {}
#endif

}  // namespace twin

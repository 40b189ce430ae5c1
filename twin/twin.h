// What libqbsa_twin*.so exports beyond kernels_ascendc/qbsa.h.
//
// Environment:
//   QBSA_TWIN_LOG=FILE   appends a line for each instruction that runs (twin/engine/log.h)
//   QBSA_TWIN_WAIT=core  a cross-core wait holds up all pipes of its core, as on older architectures; pipe, the
//                        default: its own pipe alone
#pragma once
#include "../kernels_ascendc/qbsa.h"

// Host threads of later calls; 0, the default: every CPU this process may use. Non-zero result: see qbsa_last_error().
QBSA_EXPORT int32_t qbsa_twin_set_threads(int32_t host_threads);

// How later calls of this thread run: "fast" in program order; "hostile" in two adverse orders, which must give equal
// bits; "race" (checked variant only) with every pair of conflicting accesses held against flags and barriers.
QBSA_EXPORT int32_t qbsa_twin_set_mode(const char* mode);

// Puts mistakes into later calls of this thread, for tests: the edits of twin/engine/mutation.h; "" ends it.
QBSA_EXPORT int32_t qbsa_twin_set_mutation(const char* edits);

// Copies from UB to GM that the running attention call has executed (after its end: all of them), from any thread.
QBSA_EXPORT int64_t qbsa_twin_progress();

// JSON about the chips that the clock knows: {name: {"cores": n, "mhz": x}, ..}
QBSA_EXPORT const char* qbsa_twin_chips();

// qbsa_attention on the clock of twin/clock: chip is a name of twin/clock/chip.h. trace, null or a path, gets a Chrome
// trace of the traced_groups groups with the longest programs. Only the checked variant can: it counts vector
// instructions.
QBSA_EXPORT int32_t qbsa_twin_attention_timed(const qbsa::AttentionArgs* args, const char* chip, const char* trace,
                                              int32_t traced_groups);

// JSON about the last call of this thread to qbsa_twin_attention_timed that ended without an error, see clock/report.h.
QBSA_EXPORT const char* qbsa_twin_clock_report();

// JSON about the last attention call that ended without an error:
//   {"groups": n, "host_threads": n, "vector_functions": {name: {"calls": n, "ops": {instruction: n, ..}}, ..}}
// ops is empty in the fast variant. Valid until the thread asks again.
QBSA_EXPORT const char* qbsa_twin_report();

// What libqbsa_twin*.so exports beyond kernels_ascendc/qbsa.h.
#pragma once
#include "../kernels_ascendc/qbsa.h"

// Host threads of later calls; 0, the default: every CPU this process may use. Non-zero result: see qbsa_last_error().
QBSA_EXPORT int32_t qbsa_twin_set_threads(int32_t host_threads);

// How later calls of this thread run: "fast" in program order; "hostile" in two adverse orders, which must give equal
// bits; "race" (checked variant only) with every pair of conflicting accesses held against flags and barriers.
QBSA_EXPORT int32_t qbsa_twin_set_mode(const char* mode);

// Copies from UB to GM that the running attention call has executed (after its end: all of them), from any thread.
QBSA_EXPORT int64_t qbsa_twin_progress();

// JSON about the last attention call that ended without an error:
//   {"groups": n, "host_threads": n, "vector_functions": {name: {"calls": n, "ops": {instruction: n, ..}}, ..}}
// ops is empty in the fast variant. Valid until the thread asks again.
QBSA_EXPORT const char* qbsa_twin_report();

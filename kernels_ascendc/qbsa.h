// The functions that both libraries export: libqbsa_twin*.so (host) and libqbsa_npu.so (Ascend 950).
// Every call returns 0, or a non-zero code whose reason qbsa_last_error() tells (per thread, valid until the next
// call).
#pragma once
#include "contract.h"

#if defined(__GNUC__)
#define QBSA_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define QBSA_EXPORT extern "C"
#endif

// contract.h and metadata/plan.h as JSON: constants, modes, records with field types and sizes.
QBSA_EXPORT const char* qbsa_contract();

// int32 words of the plan for the static shapes in args; pointers in args are not read.
QBSA_EXPORT int64_t qbsa_plan_words(const qbsa::ScheduleArgs* args);

// Bytes of the workspace for the static shapes in args; pointers in args are not read.
QBSA_EXPORT int64_t qbsa_workspace_bytes(const qbsa::AttentionArgs* args);

// Writes args->plan. stream: aclrtStream on the NPU (the call is asynchronous), ignored on the host.
QBSA_EXPORT int32_t qbsa_schedule(const qbsa::ScheduleArgs* args, void* stream);

// Writes args->out and args->lse. On the host a status word other than 0 is also the return value.
QBSA_EXPORT int32_t qbsa_attention(const qbsa::AttentionArgs* args, void* stream);

QBSA_EXPORT const char* qbsa_last_error();

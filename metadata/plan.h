// The plan: what the scheduler writes and the attention kernel reads; the metadata tensor is its bytes.
//
// A plan says where, never what. A task is one (batch, query head, query block); task t stands for
// batch = t / (heads_q * q_blocks), head = t / q_blocks % heads_q, block = t % q_blocks. Core c works on the tasks
// [core[c].task_begin, core[c].task_end); the kernel reads lengths and lists itself.
#pragma once
#include "../kernels_ascendc/contract.h"

// X(type, name, meaning)
#define QBSA_PLAN_HEADER(X)                                                  \
    X(i32, magic, "kPlanMagic")                                              \
    X(i32, version, "kAbiVersion")                                           \
    X(i32, words, "int32 words of the whole plan")                           \
    X(i32, cores, "core records in use, 1..kMaxCores")                       \
    X(i64, batch, "static shape the plan was made for")                      \
    X(i64, heads_q, "static shape the plan was made for")                    \
    X(i64, q_blocks, "static shape the plan was made for")                   \
    X(i64, total_cost, "sum over all tasks, in the unit of metadata/cost.h") \
    X(i64, max_cost, "cost of the busiest core")

#define QBSA_CORE_PLAN(X)                       \
    X(i64, task_begin, "first task of the core") \
    X(i64, task_end, "one past its last task")   \
    X(i64, cost, "in the unit of metadata/cost.h")

namespace qbsa {

static constexpr i32 kPlanMagic = 0x41534251;  // "QBSA"

#define X(type, name, meaning) type name;
struct PlanHeader {
    QBSA_PLAN_HEADER(X)
};
struct CorePlan {
    QBSA_CORE_PLAN(X)
};
#undef X

struct Plan {
    PlanHeader header;
    CorePlan core[kMaxCores];
};

// The same for all shapes today; callers ask so that splits can make it a function of them.
static constexpr i32 kPlanWords = sizeof(Plan) / sizeof(i32);

}  // namespace qbsa

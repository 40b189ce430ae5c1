// The plan: what the scheduler writes and the attention kernel reads; the metadata tensor is its bytes.
//
// A plan says where, never what. A task is one (batch, query head, query block). Tasks are numbered by the rank of the
// head in its KV group, then batch, KV head, query block, the last one fastest. So the heads of a group lie on different
// cores, which pass the same K and V at the same time. A position is a task and a pair of entries of its list. Core c
// works from position (task_begin, pair_begin) up to (task_end, pair_end); the
// kernel reads lengths and lists itself, and a range that ends with its task ends at the task's real end.
//
// A split task is cut inside its list. Its pieces lie on consecutive cores; each leaves a partial result in the
// workspace and the merge kernel joins them. A core has at most two pieces: one at the start of its range, one at the
// end.
#pragma once
#include "../kernels_ascendc/contract.h"

// X(type, name, meaning)
#define QBSA_PLAN_HEADER_FIELDS(X)                                                  \
    X(i32, magic, "kPlanMagic")                                              \
    X(i32, version, "kAbiVersion")                                           \
    X(i32, words, "int32 words of the whole plan")                           \
    X(i32, cores, "core records in use, 1..kMaxCores")                       \
    X(i64, batch, "static shape the plan was made for")                      \
    X(i64, heads_q, "static shape the plan was made for")                    \
    X(i64, q_blocks, "static shape the plan was made for")                   \
    X(i64, total_cost, "of all cores, in cycles of metadata/cost.h") \
    X(i64, max_cost, "of the busiest core and the longest merge")                             \
    X(i32, splits, "split tasks; 0 in a plan of kPlanWords")

#define QBSA_CORE_PLAN_FIELDS(X)                                                  \
    X(i64, task_begin, "first task of the core")                           \
    X(i64, task_end, "one past its last whole task")                       \
    X(i32, pair_begin, "first pair of task_begin")                         \
    X(i32, pair_end, "pairs of task_end that the core takes too")          \
    X(i64, cost, "in cycles of metadata/cost.h")                         \
    X(i32, reserved, "0")

// Piece k of the task lies on core first_core + k.
#define QBSA_SPLIT_TASK_FIELDS(X)                    \
    X(i64, task, "a task that is cut")        \
    X(i32, first_core, "core of its piece 0") \
    X(i32, pieces, "2..kMaxCores")            \
    X(i32, reserved, "0")

#define QBSA_CHECK_FIELD(X) X(i32, check, "hash of the fields before; tells a record from other bytes")
#define QBSA_PLAN_HEADER(X) QBSA_PLAN_HEADER_FIELDS(X) QBSA_CHECK_FIELD(X)
#define QBSA_CORE_PLAN(X) QBSA_CORE_PLAN_FIELDS(X) QBSA_CHECK_FIELD(X)
#define QBSA_SPLIT_TASK(X) QBSA_SPLIT_TASK_FIELDS(X) QBSA_CHECK_FIELD(X)

namespace qbsa {

static constexpr i32 kPlanMagic = 0x41534251;  // "QBSA"

#define X(type, name, meaning) type name;
struct PlanHeader {
    QBSA_PLAN_HEADER(X)
};
struct CorePlan {
    QBSA_CORE_PLAN(X)
};
struct SplitTask {
    QBSA_SPLIT_TASK(X)
};
#undef X

struct Plan {
    PlanHeader header;
    CorePlan core[kMaxCores];
    SplitTask split[kMaxCores];  // only in a plan of kSplitPlanWords
};

// The metadata tensor has one of two sizes, whatever the shapes: without room for splits, or with it. So the host knows
// from the size whether the merge kernel is needed.
static constexpr i32 kSplitPlanWords = sizeof(Plan) / sizeof(i32);
static constexpr i32 kPlanWords = kSplitPlanWords - kMaxCores * sizeof(SplitTask) / sizeof(i32);

inline i64 plan_words(const ScheduleArgs& args) { return args.max_kv_splits == 1 ? kPlanWords : kSplitPlanWords; }

// `check` of each record, FNV-1a over its fields. Device and host need the function in their own words: qualifier and
// address space.
#define QBSA_HASH_FIELD(type, name, meaning) hash = (hash ^ (u64)record->name) * 1099511628211ull;
#define QBSA_DEFINE_CHECK(function, qualifier, space, Record, FIELDS) \
    qualifier inline i32 function(const space Record* record)         \
    {                                                                 \
        u64 hash = 14695981039346656037ull;                           \
        FIELDS(QBSA_HASH_FIELD)                                       \
        return (i32)(hash ^ (hash >> 32));                            \
    }
#define QBSA_DEFINE_CHECKS(prefix, qualifier, space)                                                       \
    QBSA_DEFINE_CHECK(prefix##_header_check, qualifier, space, PlanHeader, QBSA_PLAN_HEADER_FIELDS)        \
    QBSA_DEFINE_CHECK(prefix##_core_check, qualifier, space, CorePlan, QBSA_CORE_PLAN_FIELDS)              \
    QBSA_DEFINE_CHECK(prefix##_split_check, qualifier, space, SplitTask, QBSA_SPLIT_TASK_FIELDS)

}  // namespace qbsa

// The scheduler: lengths of lists -> contiguous task ranges of nearly equal cost, one per core. Same text on the AICPU
// and on the host; two passes over the lengths, no allocation.
#pragma once
#include "cost.h"
#include "plan.h"

namespace qbsa {

// Cost of each task in order, read through the strides of the caller's tensors.
class TaskCosts {
public:
    explicit TaskCosts(const ScheduleArgs& args)
        : args_(args),
          lengths_(reinterpret_cast<const i32*>(args.sparse_seq_len)),
          cu_seqlens_(reinterpret_cast<const i32*>(args.cu_seqlens_q))
    {
    }

    // Calls visit(task, cost) for every task, in order.
    template <class Visit>
    void for_each(Visit visit) const
    {
        i64 task = 0;
        for (i64 batch = 0; batch < args_.batch; ++batch) {
            const i64 real_blocks = num_real_blocks(batch);
            for (i64 head = 0; head < args_.heads_q; ++head) {
                const i32* row = lengths_ + batch * args_.seq_len_batch_stride + head * args_.seq_len_head_stride;
                for (i64 block = 0; block < args_.q_blocks; ++block, ++task) {
                    const i64 entries = block < real_blocks ? row[block * args_.seq_len_block_stride] : -1;
                    visit(task, block < real_blocks ? task_cost(entries < 0 ? 0 : entries) : 0);
                }
            }
        }
    }

private:
    // Query blocks that the sequence has; the others cost nothing.
    i64 num_real_blocks(i64 batch) const
    {
        if (!cu_seqlens_) {
            return args_.q_blocks;
        }
        const i64 rows = static_cast<i64>(cu_seqlens_[batch + 1]) - cu_seqlens_[batch];
        const i64 blocks = rows <= 0 ? 0 : (rows + kBlockRows - 1) / kBlockRows;
        return blocks < args_.q_blocks ? blocks : args_.q_blocks;
    }

    const ScheduleArgs& args_;
    const i32* lengths_;
    const i32* cu_seqlens_;
};

// Cuts where the cost so far passes core/cores of the total, at the nearer side of the task that crosses it.
inline void schedule(const ScheduleArgs& args, i32 cores, Plan* plan)
{
    const TaskCosts costs(args);
    i64 total = 0;
    costs.for_each([&](i64, i64 cost) { total += cost; });

    *plan = Plan();
    plan->header.magic = kPlanMagic;
    plan->header.version = kAbiVersion;
    plan->header.words = kPlanWords;
    plan->header.cores = cores;
    plan->header.batch = args.batch;
    plan->header.heads_q = args.heads_q;
    plan->header.q_blocks = args.q_blocks;
    plan->header.total_cost = total;

    i32 core = 0;
    i64 before = 0;
    costs.for_each([&](i64 task, i64 cost) {
        const i64 after = before + cost;
        while (core + 1 < cores &&
               before + after > 2 * (total / cores * (core + 1) + total % cores * (core + 1) / cores)) {
            plan->core[core].task_end = task;
            plan->core[++core].task_begin = task;
        }
        plan->core[core].cost += cost;
        before = after;
    });
    const i64 tasks = args.batch * args.heads_q * args.q_blocks;
    for (; core < cores; ++core) {
        plan->core[core].task_end = tasks;
        if (core + 1 < cores) {
            plan->core[core + 1].task_begin = tasks;
        }
    }
    for (core = 0; core < cores; ++core) {
        if (plan->core[core].cost > plan->header.max_cost) {
            plan->header.max_cost = plan->core[core].cost;
        }
    }
}

}  // namespace qbsa

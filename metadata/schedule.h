// The scheduler: lengths of lists -> contiguous ranges of work, one per core, with the smallest load of the busiest
// core. Same text on the AICPU and on the host; a few passes over the lengths, no allocation.
//
//   Fill      hands tasks to cores in order, none beyond a given limit; where tasks may be cut, it cuts at a pair
//   schedule  bisects for the smallest limit that all tasks fit under, then fills once more into the plan
#pragma once
#include "cost.h"
#include "plan.h"

namespace qbsa {

QBSA_DEFINE_CHECKS(host, , )

// The list length of each task in order, read through the strides of the caller's tensors.
class TaskLengths {
public:
    explicit TaskLengths(const ScheduleArgs& args)
        : args_(args),
          lengths_(reinterpret_cast<const i32*>(args.sparse_seq_len)),
          cu_seqlens_(reinterpret_cast<const i32*>(args.cu_seqlens_q))
    {
    }

    i64 tasks() const { return args_.batch * args_.heads_q * args_.q_blocks; }

    // Calls visit(entries) for every task, in order; -1: the sequence does not have that query block.
    template <class Visit>
    void for_each(Visit visit) const
    {
        for (i64 batch = 0; batch < args_.batch; ++batch) {
            const i64 real_blocks = num_real_blocks(batch);
            for (i64 head = 0; head < args_.heads_q; ++head) {
                const i32* row = lengths_ + batch * args_.seq_len_batch_stride + head * args_.seq_len_head_stride;
                for (i64 block = 0; block < args_.q_blocks; ++block) {
                    const i64 entries = block < real_blocks ? row[block * args_.seq_len_block_stride] : -1;
                    visit(block < real_blocks && entries < 0 ? 0 : entries);
                }
            }
        }
    }

private:
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

// A position in the work: pairs of lists, in task order.
struct Position {
    i64 task;
    i64 pair;
};

// Fills cores one after the other up to `limit`; the last core takes what is left.
class Fill {
public:
    // plan: written when given, its header fields cores and splits too. most_pieces: of one task.
    Fill(i32 cores, i64 limit, i32 most_pieces, Plan* plan)
        : cores_(cores), limit_(limit), most_pieces_(most_pieces), plan_(plan)
    {
        open_core();
    }

    void add(i64 entries)
    {
        if (entries >= 0) {
            place(entries);
        }
        ++at_.task;
    }

    // Closes the remaining cores. Returns the load of the busiest one.
    i64 finish()
    {
        close_core();
        while (core_ + 1 < cores_) {
            ++core_;
            open_core();
            close_core();
        }
        return busiest_;
    }

private:
    void place(i64 entries)
    {
        i32 pieces = 1;
        at_.pair = 0;
        while (core_ + 1 < cores_ && load_ + piece_cost(entries) > limit_) {
            const i64 pairs = pieces < most_pieces_ ? pairs_that_fit(entries) : 0;
            if (pairs > 0) {
                load_ += cost::kTask + cost::kMerge + pairs * cost::kMacroBlock;
                at_.pair += pairs;
                note_cut(pieces++);
            } else if (load_ == 0) {
                break;  // not even an empty core can hold it, and it may not be cut
            }
            close_core();
            ++core_;
            open_core();
        }
        load_ += piece_cost(entries);
        at_.pair = 0;
    }

    // What is left of the task at hand.
    i64 piece_cost(i64 entries) const { return rest_cost(entries, at_.pair) + (at_.pair > 0 ? cost::kMerge : 0); }

    // Pairs of the task at hand that the core still takes, leaving at least one for the next.
    i64 pairs_that_fit(i64 entries) const
    {
        const i64 room = limit_ - load_ - cost::kTask - cost::kMerge;
        const i64 left = (entries + 1) / kBlocksPerMacro - at_.pair - 1;
        const i64 fit = room <= 0 ? 0 : room / cost::kMacroBlock;
        return fit < left ? fit : (left > 0 ? left : 0);
    }

    void note_cut(i32 pieces)
    {
        if (!plan_) {
            return;
        }
        if (pieces == 1) {
            plan_->split[plan_->header.splits++] = {at_.task, core_, 2, 0, 0};
        } else {
            plan_->split[plan_->header.splits - 1].pieces = pieces + 1;
        }
    }

    void open_core()
    {
        load_ = 0;
        if (plan_) {
            plan_->core[core_].task_begin = at_.task;
            plan_->core[core_].pair_begin = static_cast<i32>(at_.pair);
        }
    }

    void close_core()
    {
        busiest_ = load_ > busiest_ ? load_ : busiest_;
        if (plan_) {
            CorePlan& core = plan_->core[core_];
            core.task_end = at_.task;
            core.pair_end = static_cast<i32>(at_.pair);
            core.cost = load_;
            core.check = host_core_check(&core);
        }
    }

    i32 cores_;
    i64 limit_;
    i32 most_pieces_;
    Plan* plan_;
    i32 core_ = 0;
    i64 load_ = 0;
    i64 busiest_ = 0;
    Position at_ = {0, 0};
};

inline i64 fill(const TaskLengths& lengths, i32 cores, i64 limit, i32 most_pieces, Plan* plan)
{
    Fill cut(cores, limit, most_pieces, plan);
    lengths.for_each([&](i64 entries) { cut.add(entries); });
    return cut.finish();
}

// The smallest limit, to half a percent, under which all tasks fit.
inline i64 smallest_limit(const TaskLengths& lengths, i32 cores, i64 total, i64 largest, i32 most_pieces)
{
    constexpr i64 kPrecision = 200;
    const i64 even = (total + cores - 1) / cores;
    i64 low = even > largest || most_pieces > 1 ? even : largest;
    i64 high = even + largest;
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        if (fill(lengths, cores, middle, most_pieces, nullptr) <= middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
        if ((high - low) * kPrecision <= low) {
            break;
        }
    }
    return high;
}

// plan: kPlanWords, or kSplitPlanWords when args.max_kv_splits is not 1.
inline void schedule(const ScheduleArgs& args, i32 cores, Plan* plan)
{
    const TaskLengths lengths(args);
    i64 total = 0;
    i64 largest = 0;
    lengths.for_each([&](i64 entries) {
        const i64 cost = entries < 0 ? 0 : rest_cost(entries, 0);
        total += cost;
        largest = cost > largest ? cost : largest;
    });

    const bool may_split = args.max_kv_splits != 1;
    i32 most_pieces = 1;
    i64 limit = smallest_limit(lengths, cores, total, largest, 1);
    if (may_split) {
        const i32 allowed = args.max_kv_splits == 0 || args.max_kv_splits > cores ? cores : args.max_kv_splits;
        const i64 with_splits = smallest_limit(lengths, cores, total, largest, allowed);
        constexpr i64 kWorthwhile = 50;  // a merge kernel for less than 2 % is not
        if (with_splits + with_splits / kWorthwhile < limit) {
            limit = with_splits;
            most_pieces = allowed;
        }
    }

    PlanHeader& header = plan->header;
    header = PlanHeader();
    header.magic = kPlanMagic;
    header.version = kAbiVersion;
    header.words = static_cast<i32>(plan_words(args));
    header.cores = cores;
    header.batch = args.batch;
    header.heads_q = args.heads_q;
    header.q_blocks = args.q_blocks;
    for (i32 core = 0; core < kMaxCores; ++core) {
        plan->core[core] = CorePlan();
    }
    for (i32 split = 0; may_split && split < kMaxCores; ++split) {
        plan->split[split] = SplitTask();
    }
    header.max_cost = fill(lengths, cores, limit, most_pieces, plan);
    for (i32 core = 0; core < cores; ++core) {
        header.total_cost += plan->core[core].cost;
    }
    for (i32 split = 0; split < header.splits; ++split) {
        plan->split[split].check = host_split_check(&plan->split[split]);
    }
    header.check = host_header_check(&header);
}

}  // namespace qbsa

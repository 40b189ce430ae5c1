// The scheduler: lengths of lists -> contiguous ranges of work, one per core, with the smallest load of the busiest
// core. Same text on the AICPU and on the host; one pass over the lengths and no allocation.
//
//   Filler    adds up the costs of chunks of tasks, once; hands tasks to cores in order, none beyond a given limit,
//             whole chunks at a time; where tasks may be cut, it cuts at a pair
//   schedule  bisects for the smallest limit that all tasks fit under, then fills once more into the plan
#pragma once
#include "cost.h"
#include "plan.h"

namespace qbsa {

QBSA_DEFINE_CHECKS(host, , )

// Reads task after task through the strides of the caller's tensors.
class TaskReader {
public:
    explicit TaskReader(const ScheduleArgs& args)
        : args_(args),
          lengths_(reinterpret_cast<const i32*>(args.sparse_seq_len)),
          cu_seqlens_(reinterpret_cast<const i32*>(args.cu_seqlens_q)),
          group_(args.heads_q / args.heads_kv)
    {
    }

    i64 tasks() const { return args_.batch * args_.heads_q * args_.q_blocks; }

    void seek(i64 task)
    {
        block_ = task % args_.q_blocks;
        const i64 stream = task / args_.q_blocks;
        kv_head_ = stream % args_.heads_kv;
        batch_ = stream / args_.heads_kv % args_.batch;
        rank_ = stream / args_.heads_kv / args_.batch;
        open_batch();
        open_row();
    }

    // The task at hand; then on to the one after it. Not to be called after the last.
    TaskSize next()
    {
        TaskSize size = {-1, 0};
        if (block_ < real_blocks_) {
            const i64 entries = row_[block_ * args_.seq_len_block_stride];
            size.entries = entries < 0 ? 0 : entries;
            size.rows = block_ == last_block_ ? rows_of_last_ : kBlockRows;
        }
        if (++block_ == args_.q_blocks) {
            block_ = 0;
            if (++kv_head_ == args_.heads_kv) {
                kv_head_ = 0;
                if (++batch_ == args_.batch) {
                    batch_ = 0;
                    ++rank_;
                }
                open_batch();
            }
            open_row();
        }
        return size;
    }

private:
    void open_row()
    {
        const i64 head = kv_head_ * group_ + rank_;
        row_ = lengths_ + batch_ * args_.seq_len_batch_stride + head * args_.seq_len_head_stride;
    }

    void open_batch()
    {
        real_blocks_ = args_.q_blocks;
        last_block_ = -1;
        if (!cu_seqlens_) {
            return;
        }
        const i64 rows = static_cast<i64>(cu_seqlens_[batch_ + 1]) - cu_seqlens_[batch_];
        const i64 blocks = rows <= 0 ? 0 : (rows + kBlockRows - 1) / kBlockRows;
        real_blocks_ = blocks < args_.q_blocks ? blocks : args_.q_blocks;
        last_block_ = blocks - 1;
        rows_of_last_ = rows - last_block_ * kBlockRows;
    }

    const ScheduleArgs& args_;
    const i32* lengths_;
    const i32* cu_seqlens_;
    const i32* row_ = nullptr;
    i64 group_;  // query heads that share a KV head
    i64 rank_ = 0;
    i64 batch_ = 0;
    i64 kv_head_ = 0;
    i64 block_ = 0;
    i64 real_blocks_ = 0;
    i64 last_block_ = -1;  // the only one that may have fewer rows; -1: none has
    i64 rows_of_last_ = 0;
};

class Filler {
public:
    Filler(const ScheduleArgs& args, i32 cores) : reader_(args), tasks_(reader_.tasks()), cores_(cores)
    {
        while (tasks_ > kMaxChunks << chunk_shift_) {
            ++chunk_shift_;
        }
        if (tasks_ > 0) {
            reader_.seek(0);
        }
        for (i64 task = 0; task < tasks_; ++task) {
            const i64 cost = reader_.next().cost(0);
            const i64 chunk = task >> chunk_shift_;
            chunk_cost_[chunk] = cost + (task == chunk << chunk_shift_ ? 0 : chunk_cost_[chunk]);
            largest_ = cost > largest_ ? cost : largest_;
            total_ += cost;
        }
    }

    i64 largest() const { return largest_; }
    i64 even_share() const { return (total_ + cores_ - 1) / cores_; }

    // Fills cores one after the other up to `limit`; false: tasks are left. most_pieces: of one task. plan: written when
    // given, its header fields splits, max_cost and total_cost too; its last core takes what is left.
    bool fill(i64 limit, i32 most_pieces, Plan* plan)
    {
        task_ = 0;
        pair_ = 0;
        pieces_ = 1;
        busiest_ = 0;
        splits_ = 0;
        if (tasks_ > 0) {
            reader_.seek(0);
            size_ = reader_.next();
        }
        for (i32 core = 0; core < cores_ && (plan || task_ < tasks_); ++core) {
            if (plan) {
                plan->core[core].task_begin = task_;
                plan->core[core].pair_begin = static_cast<i32>(pair_);
            }
            const bool takes_all = plan && core + 1 == cores_;
            const i64 load = fill_core(takes_all ? kNoLimit : limit, most_pieces);
            busiest_ = load > busiest_ ? load : busiest_;
            if (plan) {
                store(core, load, plan);
            }
        }
        return task_ >= tasks_;
    }

    // Of the last fill: load of the busiest core.
    i64 busiest() const { return busiest_; }
    // Of the last fill: most pieces of a task.
    i32 most_pieces() const
    {
        i32 most = 1;
        for (i32 s = 0; s < splits_; ++s) {
            most = split_[s].pieces > most ? split_[s].pieces : most;
        }
        return most;
    }
    // Of the last fill: cost of the busiest core and the longest merge after it.
    i64 makespan() const
    {
        i64 longest = 0;
        for (i32 s = 0; s < splits_; ++s) {
            const i64 merge = merge_cost(split_[s].pieces, split_[s].groups, splits_, cores_);
            longest = merge > longest ? merge : longest;
        }
        return busiest_ + longest;
    }

private:
    static constexpr i64 kMaxChunks = 1024;
    static constexpr i64 kNoLimit = INT64_MAX / 2;

    // Takes tasks from (task_, pair_) on, up to `limit`; returns their cost.
    i64 fill_core(i64 limit, i32 most_pieces)
    {
        i64 load = 0;
        while (task_ < tasks_) {
            if (pair_ == 0 && (task_ & ((i64(1) << chunk_shift_) - 1)) == 0 && skip_chunks(limit, load)) {
                continue;
            }
            const i64 cost = size_.cost(pair_);
            if (load + cost > limit) {
                return load + cut(limit - load, most_pieces);
            }
            load += cost;
            pair_ = 0;
            pieces_ = 1;
            if (++task_ < tasks_) {
                size_ = reader_.next();
            }
        }
        return load;
    }

    // From the start of a chunk: takes chunks that fit whole.
    bool skip_chunks(i64 limit, i64& load)
    {
        const i64 first = task_ >> chunk_shift_;
        const i64 chunks = ((tasks_ - 1) >> chunk_shift_) + 1;
        i64 chunk = first;
        for (; chunk < chunks && load + chunk_cost_[chunk] <= limit; ++chunk) {
            load += chunk_cost_[chunk];
        }
        if (chunk == first) {
            return false;
        }
        task_ = chunk == chunks ? tasks_ : chunk << chunk_shift_;
        if (task_ < tasks_) {
            reader_.seek(task_);
            size_ = reader_.next();
        }
        return true;
    }

    // Takes as many pairs of the task at hand as `room` holds, leaving at least one; returns their cost.
    i64 cut(i64 room, i32 most_pieces)
    {
        const i64 left = (size_.entries + 1) / kBlocksPerMacro - pair_ - 1;
        const i64 fit = (room - size_.piece(0)) / size_.macro_block();
        const i64 pairs = fit < left ? fit : left;
        if (pairs <= 0 || pieces_ >= most_pieces) {
            return 0;
        }
        pair_ += pairs;
        if (++pieces_ == 2) {
            ++splits_;
        }
        split_[splits_ - 1] = {pieces_, size_.groups()};
        return size_.piece(pairs);
    }

    // The range and cost of `core`, whose end is the position at hand; and the split task it ends in.
    void store(i32 core_index, i64 load, Plan* plan) const
    {
        CorePlan& core = plan->core[core_index];
        core.task_end = task_;
        core.pair_end = static_cast<i32>(pair_);
        core.cost = load;
        core.check = host_core_check(&core);
        plan->header.total_cost += load;
        if (pair_ == 0) {
            return;
        }
        if (pieces_ == 2) {
            plan->split[plan->header.splits++] = {task_, core_index, 0, 0, 0};
        }
        plan->split[plan->header.splits - 1].pieces = pieces_;
    }

    TaskReader reader_;
    i64 tasks_;
    i32 cores_;
    i32 chunk_shift_ = 0;
    i64 largest_ = 0;
    i64 total_ = 0;
    i64 chunk_cost_[kMaxChunks];

    i64 task_ = 0;  // the position: pairs before pair_ of task_, and all tasks before it, are handed out
    i64 pair_ = 0;
    TaskSize size_ = {-1, 0};  // of task_
    i32 pieces_ = 1;           // of task_, so far
    i64 busiest_ = 0;
    // Of split tasks so far; a core starts one at most.
    struct {
        i32 pieces;
        i64 groups;
    } split_[kMaxCores];
    i32 splits_ = 0;
};

// A way to fill, and what it takes: the busiest core and the longest merge after it.
struct Choice {
    i64 limit;
    i32 most_pieces;
    i64 makespan;
};

// With the smallest limit under which all tasks fit.
inline Choice smallest_limit(Filler& filler, i32 most_pieces)
{
    const i64 even = filler.even_share();
    // A core has two pieces at most, each with the fixed cost of one.
    const i64 cuts = 2 * (TaskSize{0, kBlockRows}.piece(0) + TaskSize{0, 1}.piece(0));
    i64 low = even > filler.largest() || most_pieces > 1 ? even : filler.largest();
    i64 high = even + filler.largest() + (most_pieces > 1 ? cuts : 0);
    while (low < high) {
        const i64 middle = low + (high - low) / 2;
        if (filler.fill(middle, most_pieces, nullptr)) {
            high = filler.busiest() < middle ? filler.busiest() : middle;
        } else {
            low = middle + 1;
        }
    }
    filler.fill(high, most_pieces, nullptr);
    return {high, most_pieces, filler.makespan()};
}

// Without cuts, or with those that gain more than one percent, the merge included. Merging takes as long as the task
// with the most pieces, so half as many are tried too.
inline Choice choose(Filler& filler, i32 most_pieces)
{
    constexpr i64 kWorthwhile = 100;
    Choice best = smallest_limit(filler, 1);
    while (most_pieces > 1) {
        const Choice choice = smallest_limit(filler, most_pieces);
        if (choice.makespan + choice.makespan / kWorthwhile < best.makespan) {
            best = choice;
        }
        most_pieces = filler.most_pieces() / 2;
    }
    return best;
}

inline bool can_schedule(const ScheduleArgs& args)
{
    return args.cores >= 1 && args.cores <= kMaxCores && args.max_kv_splits >= 0 && args.batch >= 0 &&
           args.heads_q >= 0 && args.heads_kv >= 1 && args.heads_q % args.heads_kv == 0 && args.q_blocks >= 0;
}

// plan: kPlanWords, or kSplitPlanWords when args.max_kv_splits is not 1.
inline void schedule(const ScheduleArgs& args, i32 cores, Plan* plan)
{
    const bool may_split = args.max_kv_splits != 1;
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

    Filler filler(args, cores);
    const bool any_number = args.max_kv_splits == 0 || args.max_kv_splits > cores;
    const Choice choice = choose(filler, any_number ? cores : args.max_kv_splits);
    filler.fill(choice.limit, choice.most_pieces, plan);
    header.max_cost = filler.makespan();
    for (i32 split = 0; split < header.splits; ++split) {
        plan->split[split].check = host_split_check(&plan->split[split]);
    }
    header.check = host_header_check(&header);
}

}  // namespace qbsa

// From the plan to macro-blocks: the walk that AIC and both AIVs of a group make independently and identically.
//
// A plan says where, never what: lengths, lists and page ids are read here, at run time, and every value that comes
// from device memory is clamped or skipped, so that no int32 in them can lead outside a tensor.
#pragma once
#include "kernel_operator.h"

#include "../metadata/plan.h"
#include "contract.h"
#include "mask.h"

namespace qbsa {

QBSA_DEFINE_CHECKS(plan, __aicore__, __gm__)

// Slot of a piece in the workspace: two a core; the piece at the end of a range starts its task.
__aicore__ inline i64 partial_slot(i64 core, bool starts_task) { return 2 * core + (starts_task ? 1 : 0); }

// No int32 length reaches more blocks; a wider table or more query blocks add nothing.
static constexpr i64 kMaxBlocks = (i64(1) << 31) / kBlockKeys;
static_assert(kBlockRows == kBlockKeys, "one bound for both");

// A selected KV block with at least one visible key.
struct Block {
    i64 page;
    i64 first_key;  // in the sequence
    i32 keys;       // 1..128 keys that exist and that take part
    i32 tile_keys;  // the same in steps: 64 or 128
};

// One (batch, query head, query block).
struct Task {
    i64 batch;
    i64 head;
    i64 first_token;  // row of query and out
    i64 first_row;    // the same row, counted from the start of its sequence
    i32 rows;         // 1..128
    i64 q_len;
    i64 kv_len;
    i64 list_length;
    i64 list_offset;   // of its first entry in sparse_indices
    i64 partial_slot;  // of the workspace, where this piece of a split task goes; -1: the task is whole
    uint32_t serial;   // counts the tasks of this core that have at least one macro-block
};

// Up to two blocks whose list positions are 2k and 2k + 1, in ascending key order.
struct MacroBlock {
    Task task;
    Block block[kBlocksPerMacro];
    i32 blocks;       // 0: the task, or its piece, has no visible key at all and this is its only macro-block
    bool first;       // of its task or piece
    uint32_t serial;  // counts the macro-blocks of this core

    __aicore__ inline i32 keys() const
    {
        return block[0].tile_keys + (blocks == kBlocksPerMacro ? block[1].tile_keys : 0);
    }
    __aicore__ inline bool is_full() const { return keys() == kBlocksPerMacro * kBlockKeys; }
    __aicore__ inline bool has_tail() const
    {
        return block[0].keys < block[0].tile_keys || (blocks == kBlocksPerMacro && block[1].keys < block[1].tile_keys);
    }
};

template <class Mask>
class TaskWalker {
public:
    // group: AIC group of this core; groups: number launched. Core records are walked modulo the launched groups.
    __aicore__ inline TaskWalker(const AttentionArgs& args, i64 group, i64 groups)
        : args_(args), groups_(groups), core_(group - groups)
    {
        plan_ = (__gm__ const Plan*)args.plan;
        indices_.SetGlobalBuffer((__gm__ int32_t*)args.sparse_indices);
        list_lengths_.SetGlobalBuffer((__gm__ int32_t*)args.sparse_seq_len);
        cu_seqlens_q_.SetGlobalBuffer((__gm__ int32_t*)args.cu_seqlens_q);
        seqused_kv_.SetGlobalBuffer((__gm__ int32_t*)args.seqused_kv);
        block_table_.SetGlobalBuffer((__gm__ int32_t*)args.block_table);
    }

    // The next macro-block of this core; false when there is none.
    __aicore__ inline bool next(MacroBlock& macro)
    {
        for (;;) {
            while (in_task_ && entry_ < entry_end_) {
                read_pair(macro);
                if (macro.blocks > 0) {
                    macro.first = first_;
                    if (first_) {
                        task_.serial = task_serial_++;
                    }
                    macro.task = task_;
                    macro.serial = macro_serial_++;
                    first_ = false;
                    return true;
                }
            }
            const bool empty = in_task_ && first_;
            in_task_ = false;
            if (empty) {
                macro.task = task_;
                macro.blocks = 0;
                return true;
            }
            if (!next_task()) {
                return false;
            }
        }
    }

    // [begin, end) in tokens of sequence `batch`.
    __aicore__ inline i64 sequence_begin(i64 batch) const
    {
        return clamp(cu_seqlens_q_.GetValue(batch), 0, args_.tokens);
    }
    __aicore__ inline i64 sequence_end(i64 batch) const
    {
        return clamp(cu_seqlens_q_.GetValue(batch + 1), sequence_begin(batch), args_.tokens);
    }

    // Was a core record met that is none?
    __aicore__ inline bool met_foreign_record() const { return foreign_record_; }

    // Task number `index`, whole. False: the query block lies past the end of its sequence.
    __aicore__ inline bool read_task(i64 index, Task& task) const
    {
        const i64 q_block = index % args_.q_blocks;
        const i64 stream = index / args_.q_blocks;
        const i64 kv_head = stream % args_.heads_kv;
        const i64 rank = stream / args_.heads_kv / args_.batch;
        task.batch = stream / args_.heads_kv % args_.batch;
        task.head = kv_head * (args_.heads_q / args_.heads_kv) + rank;
        const i64 begin = sequence_begin(task.batch);
        task.q_len = sequence_end(task.batch) - begin;
        task.first_row = q_block * kBlockRows;
        if (task.first_row >= task.q_len) {
            return false;
        }
        task.first_token = begin + task.first_row;
        task.rows = (i32)clamp(task.q_len - task.first_row, 1, kBlockRows);
        task.kv_len = clamp(seqused_kv_.GetValue(task.batch), 0, kMaxBlocks * kBlockKeys);
        task.list_length =
            clamp(list_lengths_.GetValue(task.batch * args_.seq_len_batch_stride +
                                         task.head * args_.seq_len_head_stride + q_block * args_.seq_len_block_stride),
                  0, args_.list_capacity);
        task.list_offset = task.batch * args_.indices_batch_stride + task.head * args_.indices_head_stride +
                           q_block * args_.indices_block_stride;
        task.partial_slot = -1;
        return true;
    }

private:
    __aicore__ inline bool next_task()
    {
        for (;;) {
            while (task_index_ >= task_end_ + (pair_end_ > 0 ? 1 : 0)) {
                core_ += groups_;
                if (core_ >= plan_->header.cores) {
                    return false;
                }
                read_core();
            }
            const i64 index = task_index_++;
            if (read_task(index, task_)) {
                begin_piece(index);
                return true;
            }
            // The sequence ends before this query block: on to the next head.
            task_index_ = (index / args_.q_blocks + 1) * args_.q_blocks;
        }
    }

    __aicore__ inline void read_core()
    {
        const __gm__ CorePlan* core = &plan_->core[core_];
        const i64 tasks = args_.batch * args_.heads_q * args_.q_blocks;
        // A plan without room for splits has no workspace for pieces either.
        const bool whole = core->pair_begin == 0 && core->pair_end == 0;
        const bool valid = core->check == plan_core_check(core) && core->task_begin >= 0 &&
                           core->task_begin <= core->task_end && core->task_end <= tasks - (core->pair_end > 0) &&
                           (whole || args_.plan_words == kSplitPlanWords);
        foreign_record_ = foreign_record_ || !valid;
        task_begin_ = valid ? core->task_begin : 0;
        task_end_ = valid ? core->task_end : 0;
        pair_begin_ = valid ? core->pair_begin : 0;
        pair_end_ = valid ? core->pair_end : 0;
        task_index_ = task_begin_;
    }

    // The part of task_ that this core record takes: list entries [entry_, entry_end_).
    __aicore__ inline void begin_piece(i64 index)
    {
        const bool starts = index > task_begin_ || pair_begin_ == 0;
        const bool ends = index < task_end_;
        entry_ = starts ? 0 : clamp((i64)pair_begin_ * kBlocksPerMacro, 0, task_.list_length);
        entry_end_ = ends ? task_.list_length : clamp((i64)pair_end_ * kBlocksPerMacro, entry_, task_.list_length);
        task_.partial_slot = starts && ends ? -1 : partial_slot(core_, starts);
        in_task_ = true;
        first_ = true;
    }

    // List positions entry_ and entry_ + 1. A position that shows nothing is left out and never re-paired.
    __aicore__ inline void read_pair(MacroBlock& macro)
    {
        const i64 end = clamp(entry_ + kBlocksPerMacro, 0, entry_end_);
        macro.blocks = 0;
        for (; entry_ < end; ++entry_) {
            if (read_block(entry_, macro.block[macro.blocks])) {
                ++macro.blocks;
            }
        }
        if (macro.blocks == kBlocksPerMacro && macro.block[0].first_key > macro.block[1].first_key) {
            const Block later = macro.block[0];
            macro.block[0] = macro.block[1];
            macro.block[1] = later;
        }
    }

    __aicore__ inline bool read_block(i64 entry, Block& block)
    {
        const i64 id = indices_.GetValue(task_.list_offset + entry * args_.indices_entry_stride);
        block.first_key = id * kBlockKeys;
        const i64 last_key = Mask::last_key(task_.first_row + task_.rows - 1, task_.q_len, task_.kv_len);
        if (id < 0 || id >= args_.table_width || block.first_key >= task_.kv_len || block.first_key > last_key) {
            return false;
        }
        const i64 existing = clamp(task_.kv_len - block.first_key, 1, kBlockKeys);
        const i64 visible = clamp(last_key + 1 - block.first_key, 1, existing);
        block.tile_keys = visible > kStepKeys ? kBlockKeys : kStepKeys;
        block.keys = (i32)clamp(existing, 1, block.tile_keys);
        block.page = block_table_.GetValue(task_.batch * args_.table_batch_stride + id * args_.table_entry_stride);
        return block.page >= 0 && block.page < args_.pages;
    }

    const AttentionArgs& args_;
    __gm__ const Plan* plan_;
    AscendC::GlobalTensor<int32_t> indices_;
    AscendC::GlobalTensor<int32_t> list_lengths_;
    AscendC::GlobalTensor<int32_t> cu_seqlens_q_;
    AscendC::GlobalTensor<int32_t> seqused_kv_;
    AscendC::GlobalTensor<int32_t> block_table_;
    i64 groups_;
    i64 core_;
    i64 task_index_ = 0;
    i64 task_begin_ = 0;
    i64 task_end_ = 0;
    i32 pair_begin_ = 0;
    i32 pair_end_ = 0;
    bool foreign_record_ = false;
    i64 entry_ = 0;
    i64 entry_end_ = 0;
    Task task_;
    bool in_task_ = false;
    bool first_ = false;
    uint32_t task_serial_ = 0;
    uint32_t macro_serial_ = 0;
};

}  // namespace qbsa

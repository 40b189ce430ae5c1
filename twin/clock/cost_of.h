// Cost of one instruction, from what it touches and, for a vector function, from what it executed.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>

#include "../engine/vector_run.h"
#include "costs.h"
#include "program.h"

namespace twin::clock {

inline int64_t whole_cycles(double cycles) { return int64_t(std::ceil(cycles - 1e-9)); }

inline uint64_t bytes_of(const Access& a)
{
    return uint64_t(a.run_bytes) * a.loop[0].count * a.loop[1].count * a.loop[2].count;
}

inline int64_t ceil_fractals(int64_t rows) { return (rows + 15) / 16; }

// One 16 x 16 x 32-byte step a cycle: fp8 has 32 elements in 32 bytes, fp16 and bf16 have 16 and half the products.
inline int64_t mmad_cycles(int64_t m, int64_t n, int64_t k_slabs)
{
    return ceil_fractals(m) * ceil_fractals(n) * k_slabs;
}

struct VectorProperty {
    int issue, cycles, registers;
};
constexpr VectorProperty kVectorProperty[] = {
#define X(enumerator, spelling, issue, cycles, registers) {issue, cycles, registers},
    QBSA_VECTOR_OPS(X)
#undef X
};
constexpr bool is_between(int op, VectorOp first, VectorOp last) { return op >= int(first) && op <= int(last); }

// What a vector function asks of its unit. In a cycle two instructions issue, one that is single-issue, two reads of
// UB or a read and a write.
struct VectorWork {
    int64_t slots = 0;
    int64_t fences = 0;     // LocalMemBar
    int64_t single = 0;     // cycles of single-issue instructions
    int64_t slow = 0;       // cycles of 16-lane functions, of which two units exist
    int64_t registers = 0;  // written
    int64_t ub = 0;         // registers read from and written to UB

    explicit VectorWork(const int64_t* ops)
    {
        for (int op = 0; op < kVectorOps; ++op) {
            const VectorProperty& p = kVectorProperty[op];
            if (op == int(VectorOp::kMemBar)) fences += ops[op];
            if (p.cycles == 0) continue;
            slots += ops[op];
            registers += ops[op] * p.registers;
            if (p.issue == 1) single += ops[op] * p.cycles;
            if (p.cycles >= 4) slow += ops[op] * p.cycles;
            if (is_between(op, VectorOp::kLoad, VectorOp::kLoadPair)) ub += ops[op] * p.registers;
            if (is_between(op, VectorOp::kStore, VectorOp::kStoreBlocks)) ub += ops[op] * p.cycles;
        }
    }
};

inline int64_t vector_cycles(const Costs& costs, const int64_t* ops)
{
    const VectorWork work(ops);
    double cycles = std::max({work.slots / 2.0, double(work.single), work.slow / 2.0, work.ub / 2.0});
    if (costs.register_writes) cycles = std::max(cycles, work.registers / 2.0);
    return costs.vector_call + costs.vector_fence * work.fences + whole_cycles(costs.vector_stretch * cycles);
}

inline const Access* operand(const Instruction& instruction, const char* name)
{
    for (int i = 0; i < instruction.accesses; ++i) {
        if (std::strcmp(instruction.access[i].operand, name) == 0) return &instruction.access[i];
    }
    return nullptr;
}

inline void cost_of_mmad(const Costs& costs, const Instruction& instruction, Step& step)
{
    const Access& a = *operand(instruction, "A");
    const Access& b = *operand(instruction, "B");
    constexpr int64_t kRow = qbsa::arch::kDataBlockBytes;
    step.busy = mmad_cycles(a.run_bytes / kRow, b.run_bytes / kRow, a.loop[2].count) + costs.mmad_call;
    step.latency = costs.mmad_latency;
}

// Bytes per target: a Fixpipe into both UBs writes to them at the same time.
inline void cost_of_fixpipe(const Costs& costs, const Instruction& instruction, Step& step)
{
    uint64_t most = 0;
    for (int i = 0; i < instruction.accesses; ++i) {
        if (instruction.access[i].write) most = std::max(most, bytes_of(instruction.access[i]));
    }
    step.busy = costs.fixpipe_call + whole_cycles(most / costs.fixpipe_rate);
}

// MTE2 and MTE3. A transfer from or to GM gets its time when it runs.
inline void cost_of_copy(const Costs& costs, const Instruction& instruction, Step& step, Program& program)
{
    step.busy = costs.copy_call;
    for (int i = 0; i < instruction.accesses; ++i) {
        const Access& a = instruction.access[i];
        if (a.region.memory != Memory::kGm) continue;
        Transfer transfer{a.begin, a.run_bytes, a.write, {a.loop[0], a.loop[1], a.loop[2]}, 0, 0};
        transfer.rate = a.write ? costs.ub_to_gm_rate : costs.l2_rate;
        if (std::strstr(instruction.call.name, "Nd2Nz")) transfer.run_cycles = costs.nd2nz_row;
        step.transfer = int32_t(program.transfers.size());
        program.transfers.push_back(transfer);
        return;
    }
    const Access& to = instruction.access[0];
    const double rate = instruction.call.pipe == PIPE_MTE3 ? costs.ub_to_l1_rate : costs.l1_fill_rate;
    step.busy += whole_cycles(bytes_of(to) / rate);
}

inline void cost_of(const Costs& costs, const Instruction& instruction, const int64_t* vector_ops, Step& step,
                    Program& program)
{
    switch (instruction.call.pipe) {
        case PIPE_V:
            step.busy = vector_cycles(costs, vector_ops);
            break;
        case PIPE_M:
            cost_of_mmad(costs, instruction, step);
            break;
        case PIPE_MTE1:
            step.busy = costs.load_data_call + whole_cycles(bytes_of(instruction.access[0]) / costs.l0_rate);
            break;
        case PIPE_FIX:
            cost_of_fixpipe(costs, instruction, step);
            break;
        default:
            cost_of_copy(costs, instruction, step, program);
    }
}

}  // namespace twin::clock

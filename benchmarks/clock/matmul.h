// Matrix products by cost alone: instruction streams without data, for types that the twin does not compute with.
#pragma once
#include <vector>

#include "clock/clock.h"

namespace points {

using twin::Kind;
using twin::clock::Costs;
using twin::clock::Program;
using twin::clock::Step;

struct Figure {
    const char* name;
    double cycles;  // of one core, busy or, where the name says so, from first to last
};

// Appends calls to the stream of one AIC.
class Stream {
public:
    explicit Stream(const Costs& costs) : costs_(costs) {}

    void mmad(int64_t m, int64_t n, int64_t k_slabs)
    {
        Step& step = add(Kind::kRun, PIPE_M);
        step.busy = twin::clock::mmad_cycles(m, n, k_slabs) + costs_.mmad_call;
        step.latency = costs_.mmad_latency;
    }
    // scale_bytes: of an MX operand, at an eighth of the rate.
    void load_l0(int64_t bytes, int64_t scale_bytes = 0)
    {
        add(Kind::kRun, PIPE_MTE1).busy =
            costs_.load_data_call + twin::clock::whole_cycles(bytes / costs_.l0_rate + scale_bytes / 32.0);
    }
    void copy_in(uint64_t from, uint32_t rows, uint32_t row_bytes, int64_t pitch)
    {
        twin::clock::Transfer transfer{from, row_bytes, false, {}, costs_.l2_rate, costs_.nd2nz_row};
        transfer.loop[2] = {rows, pitch};
        Step& step = add(Kind::kRun, PIPE_MTE2);
        step.busy = costs_.copy_call;
        step.transfer = int32_t(program.transfers.size());
        program.transfers.push_back(transfer);
    }
    void set(AscendC::HardEvent event, int id) { flag(Kind::kSetFlag, event, id); }
    void wait(AscendC::HardEvent event, int id) { flag(Kind::kWaitFlag, event, id); }

    Program program;

private:
    Step& add(Kind kind, pipe_t pipe)
    {
        program.steps.push_back({kind, uint8_t(twin::queue_index(pipe)), 0, 0, 0, twin::clock::kNoTransfer, 0});
        return program.steps.back();
    }
    void flag(Kind kind, AscendC::HardEvent event, int id)
    {
        const twin::EventPipes& pipes = twin::kEventPipes[int(event)];
        Step& step = add(kind, kind == Kind::kSetFlag ? pipes.source : pipes.destination);
        step.flag = uint16_t(twin::clock::event_slot(int(event), id));
    }

    const Costs& costs_;
};

inline twin::clock::Timeline time_streams(const std::vector<Program>& aics)
{
    std::vector<twin::clock::GroupPrograms> programs(aics.size());
    for (size_t i = 0; i < aics.size(); ++i) programs[i][0] = aics[i];
    const twin::clock::Chip chip = twin::clock::find_chip("950PR");
    return twin::clock::Simulation(chip, Costs(), programs).run();
}

// K = 512 of fp16 in eight products, one behind the other: from the first to the last result.
inline std::vector<Figure> mmad_figures()
{
    const Costs costs;
    std::vector<Figure> figures;
    for (const int n : {128, 256}) {
        Stream stream(costs);
        for (int i = 0; i < 8; ++i) stream.mmad(128, n, 64 / 16);
        const double cycles = double(time_streams({stream.program}).cycles - costs.scalar_call);
        figures.push_back({n == 128 ? "mmad_128_128_512" : "mmad_128_256_512", cycles});
    }
    return figures;
}

// 8192^3 on 32 cores, tiles of 256 x 256, 2048 x 1024 a core. Bytes of K in a step and in a copy; scales of MX types.
struct Matmul {
    uint32_t row_bytes;   // K in bytes
    uint32_t step_bytes;  // K of one Mmad in bytes: 256 x 256 products in 1,024 cycles
    uint32_t steps_a_copy;
    uint32_t scale_bytes;  // of a row of an MX operand in one step
    uint32_t steps_a_scale_copy;
};

inline void add_tile(Stream& stream, const Matmul& p, int64_t row, int64_t column, uint32_t& serial)
{
    using AscendC::HardEvent;
    constexpr uint32_t kTile = 256;
    const uint64_t b_matrix = uint64_t(8192) * p.row_bytes;
    const uint32_t copy_bytes = p.step_bytes * p.steps_a_copy;
    const uint32_t steps = p.row_bytes / p.step_bytes;
    for (uint32_t k = 0; k < steps; ++k, ++serial) {
        const int slot = int(serial / p.steps_a_copy % 2), l0 = int(serial % 2);
        if (p.scale_bytes > 0 && k % p.steps_a_scale_copy == 0) {
            const uint32_t bytes = p.scale_bytes * p.steps_a_scale_copy;
            const uint64_t scales = 2 * b_matrix + k / p.steps_a_scale_copy * uint64_t(bytes);
            const int64_t pitch = int64_t(steps) * p.scale_bytes;
            stream.copy_in(scales + row * pitch, kTile, bytes, pitch);
            stream.copy_in(scales + (8192 + column) * pitch, kTile, bytes, pitch);
        }
        if (k % p.steps_a_copy == 0) {
            const uint64_t at = k / p.steps_a_copy * uint64_t(copy_bytes);
            for (const int operand : {0, 2}) {
                stream.wait(HardEvent::MTE1_MTE2, operand + slot);
                const uint64_t matrix = operand == 0 ? row * p.row_bytes : b_matrix + column * p.row_bytes;
                stream.copy_in(matrix + at, kTile, copy_bytes, p.row_bytes);
                stream.set(HardEvent::MTE2_MTE1, operand + slot);
            }
            stream.wait(HardEvent::MTE2_MTE1, slot);
            stream.wait(HardEvent::MTE2_MTE1, 2 + slot);
        }
        stream.wait(HardEvent::M_MTE1, l0);
        stream.load_l0(kTile * p.step_bytes, kTile * p.scale_bytes);
        stream.load_l0(kTile * p.step_bytes, kTile * p.scale_bytes);
        stream.set(HardEvent::MTE1_M, l0);
        if ((k + 1) % p.steps_a_copy == 0) {
            stream.set(HardEvent::MTE1_MTE2, slot);
            stream.set(HardEvent::MTE1_MTE2, 2 + slot);
        }
        stream.wait(HardEvent::MTE1_M, l0);
        stream.mmad(kTile, kTile, p.step_bytes / 32);
        stream.set(HardEvent::M_MTE1, l0);
    }
}

inline twin::clock::Timeline time_matmul(const Matmul& p)
{
    using AscendC::HardEvent;
    const Costs costs;
    std::vector<Program> aics;
    for (int core = 0; core < 32; ++core) {
        Stream stream(costs);
        for (int id = 0; id < 4; ++id) stream.set(HardEvent::MTE1_MTE2, id);
        for (int id = 0; id < 2; ++id) stream.set(HardEvent::M_MTE1, id);
        uint32_t serial = 0;
        for (int64_t row = 0; row < 2048; row += 256) {
            for (int64_t column = 0; column < 1024; column += 256) {
                add_tile(stream, p, core % 4 * 2048 + row, core / 4 * 1024 + column, serial);
            }
        }
        aics.push_back(stream.program);
    }
    return time_streams(aics);
}

inline double mean_busy(const twin::clock::Timeline& timeline, int track)
{
    double sum = 0;
    for (const auto& group : timeline.groups) sum += double(group[0].busy[track]);
    return sum / double(timeline.groups.size());
}

inline std::vector<Figure> matmul_figures()
{
    const twin::clock::Timeline t = time_matmul({8192 * 2, 64 * 2, 4, 0, 0});
    return {{"matmul_fp16_duration", double(t.cycles)},
            {"matmul_fp16_mac", mean_busy(t, 1)},
            {"matmul_fp16_mte1", mean_busy(t, 2)},
            {"matmul_fp16_mte2", mean_busy(t, 3)},
            {"matmul_fp16_scalar", mean_busy(t, twin::clock::kScalar)}};
}

// 256 elements of K in a step: 128 bytes, and 8 scales a row. Scales are copied without flags of their own.
inline std::vector<Figure> matmul_mxfp4_figures()
{
    const twin::clock::Timeline t = time_matmul({8192 / 2, 256 / 2, 2, 8, 8});
    return {{"matmul_mxfp4_mac", mean_busy(t, 1)},
            {"matmul_mxfp4_mte1", mean_busy(t, 2)},
            {"matmul_mxfp4_mte2", mean_busy(t, 3)}};
}

}  // namespace points

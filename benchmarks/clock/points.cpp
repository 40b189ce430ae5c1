// Kernels whose time has been published, written anew in the twin's calls, timed by the clock; prints a line a point:
// name, cycles of the pipe that was measured. clock_calibration.py holds them against the measurements.
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>

#include "clock/clock.h"
#include "kernel_operator.h"
#include "launch.h"
#include "matmul.h"
#include "vector_points.h"

namespace {

void print(const char* name, double cycles) { std::printf("%s %.1f\n", name, cycles); }

// Busy cycles of the vector pipe of one AIV; UB holds zeros.
int64_t vector_pipe(std::function<void(__ubuf__ float*)> body)
{
    using namespace AscendC;
    static std::vector<float> zeros(points::kUbFloats, 0.0f);
    const twin::clock::Costs costs;
    twin::clock::Recorder recorder(1, costs);
    twin::LaunchOptions options;
    options.host_threads = 1;
    options.observer = &recorder;
    const twin::Result result = twin::launch(options, [&] {
        if (!(ASCEND_IS_AIV && GetSubBlockIdx() == 0)) return;
        LocalTensor<float> ub(TPosition::VECIN, 0, points::kUbFloats);
        GlobalTensor<float> source;
        source.SetGlobalBuffer(zeros.data());
        DataCopy(ub, source, points::kUbFloats);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        body(reinterpret_cast<__ubuf__ float*>(ub.GetPhyAddr()));
    });
    if (!result.ok()) throw twin::Error(result.error);
    const twin::clock::Chip chip = twin::clock::find_chip("950PR");
    return twin::clock::Simulation(chip, costs, recorder.programs()).run().groups[0][1].busy[0];
}

void print_vector_points()
{
    using namespace points;
    print("softmax_calls", vector_pipe(softmax_by_calls));
    print("softmax_fenced", vector_pipe([](__ubuf__ float* ub) { asc_vf_call<softmax_fenced>(ub, kRows); }));
    print("softmax_rows_masks", vector_pipe([](__ubuf__ float* ub) { asc_vf_call<softmax_rows<true>>(ub, kRows); }));
    print("softmax_pairs_masks", vector_pipe([](__ubuf__ float* ub) { asc_vf_call<softmax_pairs<true>>(ub, kRows); }));
    print("softmax_rows", vector_pipe([](__ubuf__ float* ub) { asc_vf_call<softmax_rows<false>>(ub, kRows); }));
    print("softmax_pairs", vector_pipe([](__ubuf__ float* ub) { asc_vf_call<softmax_pairs<false>>(ub, kRows); }));
    // 8192 x 8192 on 64 AIVs: 128 tiles of 8,192 elements each.
    print("gelu_calls", 128.0 * vector_pipe(gelu_by_calls));
    print("gelu", 128.0 * vector_pipe([](__ubuf__ float* ub) { asc_vf_call<gelu>(ub, kGeluRegisters); }));
}

// By its number of instructions alone: V1 and V2 of one 128 x 128 tile on one AIV.
void print_attention_point()
{
    constexpr int64_t kInstructions = 2327;
    int64_t ops[twin::kVectorOps] = {};
    ops[int(twin::VectorOp::kAdd)] = kInstructions;
    const twin::clock::Costs costs;
    print("attention_bf16", double(twin::clock::vector_cycles(costs, ops) + costs.vector_call));
}

// Vector pipe for a count of instructions by kind (public_mix.json). A register gather has no kind of its own here;
// it is single-issue, as Reduce is.
int64_t vector_pipe_of_mix(int count, char** kinds_and_numbers, int vector_functions)
{
    using twin::VectorOp;
    const std::map<std::string, VectorOp> kinds = {{"load", VectorOp::kLoad},
                                                   {"store", VectorOp::kStore},
                                                   {"multiply", VectorOp::kMul},
                                                   {"add_sub", VectorOp::kAdd},
                                                   {"max", VectorOp::kMaxMin},
                                                   {"exp", VectorOp::kExpSub},
                                                   {"select_compare", VectorOp::kSelect},
                                                   {"cast_fp8", VectorOp::kCastF8},
                                                   {"or", VectorOp::kLogic},
                                                   {"register_gather_b8", VectorOp::kReduce},
                                                   {"other", VectorOp::kDuplicate}};
    int64_t ops[twin::kVectorOps] = {};
    for (int i = 0; i + 1 < count; i += 2) {
        ops[int(kinds.at(kinds_and_numbers[i]))] += std::atoll(kinds_and_numbers[i + 1]);
    }
    const twin::clock::Costs costs;
    return twin::clock::vector_cycles(costs, ops) + (vector_functions - 1) * costs.vector_call;
}

}  // namespace

// Without arguments all points; with them: number of vector functions, then kind and number of instructions in turn.
int main(int argc, char** argv)
{
    try {
        if (argc > 2) {
            print("mix", double(vector_pipe_of_mix(argc - 2, argv + 2, std::atoi(argv[1]))));
            return 0;
        }
        print_vector_points();
        print_attention_point();
        for (const points::Figure& figure : points::mmad_figures()) print(figure.name, figure.cycles);
        for (const points::Figure& figure : points::matmul_figures()) print(figure.name, figure.cycles);
        for (const points::Figure& figure : points::matmul_mxfp4_figures()) print(figure.name, figure.cycles);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}

// Must not compile: each line with the reason that the compiler has to give.
#include "kernel_operator.h"

using namespace AscendC;

struct Pair {
    int a, b;
};
__simd_vf__ inline void takes_struct(Pair) {}
__simd_vf__ inline void takes_reference(float&) {}
constexpr FixpipeConfig kToL1 = {CO2Layout::NZ, false};

void refused(LocalTensor<float> f, LocalTensor<uint8_t> b, LocalTensor<fp8_e4m3fn_t> e, GlobalTensor<uint8_t> g)
{
    CrossCoreSetFlag<2, PIPE_FIX>(0);  // the twin has mode 4 of cross-core flags only
    CrossCoreWaitFlag(0);              // the twin has mode 4 of cross-core flags only
    SetFlag<HardEvent::V_V>(0);        // order a pipe with itself by PipeBarrier
    PipeBarrier<PIPE_S>();             // the scalar pipe is in order already
    Mmad(f, b, b, MmadParams());       // the twin multiplies e4m3, half or bfloat16 by the same into fp32
    Fixpipe<float, float, kToL1>(f, f, FixpipeParamsArch3510<CO2Layout::NZ>());  // needs a config with isToUB = true
    Fill(b, InitConstValueParams<uint8_t>());                                    // Fill takes elements of 2 or 4 bytes
    DataCopy<uint8_t, true>(b, g, Nd2NzParams());                                // the twin has no small-C0 mode
    SetCtrlSpr<6, 8>(0);                                                         // the twin has CTRL bits 48, 50 and 60
    asc_vf_call<takes_struct>(Pair());   // a vector function takes pointers and scalars
    asc_vf_call<takes_reference>(1.0f);  // a vector function takes pointers and scalars
    Mmad(f, e, e, MmadParams());
}

// twin/numeric over arrays, for test_numeric.py. Counts are multiples of 16.
#include "numeric/bf16.h"
#include "numeric/e4m3.h"
#include "numeric/fp16.h"
#include "numeric/lanes.h"

using namespace twin;

namespace {

constexpr size_t kLanes = kSimdBytes / sizeof(float);

template <typename F>
void each(size_t count, F f)
{
    for (size_t i = 0; i < count; i += kLanes) {
        f(i);
    }
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT void exp_of(float* to, const float* from, size_t count)
{
    each(count, [=](size_t i) { store(to + i, twin::exp(load<float>(from + i))); });
}
EXPORT void ln_of(float* to, const float* from, size_t count)
{
    each(count, [=](size_t i) { store(to + i, ln(load<float>(from + i))); });
}
EXPORT void fma_of(float* to, const float* a, const float* b, const float* c, size_t count)
{
    each(count,
         [=](size_t i) { store(to + i, twin::fma(load<float>(a + i), load<float>(b + i), load<float>(c + i))); });
}
EXPORT void div_of(float* to, const float* a, const float* b, size_t count)
{
    each(count, [=](size_t i) { store(to + i, twin::div(load<float>(a + i), load<float>(b + i))); });
}
EXPORT void e4m3_of(uint32_t* to, const float* from, size_t count, uint32_t overflow, uint32_t nan)
{
    each(count, [=](size_t i) { store(to + i, e4m3_encode(load<float>(from + i), {overflow, nan})); });
}
EXPORT void bf16_of(uint32_t* to, const float* from, size_t count, uint32_t overflow, uint32_t nan)
{
    each(count, [=](size_t i) { store(to + i, bf16_encode(load<float>(from + i), {overflow, nan})); });
}
EXPORT void e4m3_values(float* to)
{
    for (uint32_t code = 0; code < 256; ++code) {
        to[code] = e4m3_decode((uint8_t)code);
    }
}
EXPORT void fp16_values(float* to)
{
    for (uint32_t code = 0; code < 65536; ++code) {
        to[code] = fp16_decode((uint16_t)code);
    }
}
EXPORT void bf16_values(float* to)
{
    for (uint32_t code = 0; code < 65536; ++code) {
        to[code] = bf16_decode((uint16_t)code);
    }
}

// The few words that the tests of the twin share.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "kernel_operator.h"
#include "launch.h"

using namespace AscendC;

inline int failures = 0;

#define CHECK(condition)                                                          \
    do {                                                                          \
        if (!(condition)) {                                                       \
            std::printf("%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
            ++failures;                                                           \
        }                                                                         \
    } while (0)

#define CHECK_HAS(text, part)                                                                                  \
    do {                                                                                                       \
        const std::string text_ = (text), part_ = (part);                                                      \
        if (text_.find(part_) == std::string::npos) {                                                          \
            std::printf("%s:%d: \"%s\" is not in \"%s\"\n", __FILE__, __LINE__, part_.c_str(), text_.c_str()); \
            ++failures;                                                                                        \
        }                                                                                                      \
    } while (0)

inline std::string run_with(const twin::LaunchOptions& options, std::function<void()> program)
{
    return twin::launch(options, std::move(program)).error;
}
// Error text of one group, empty if it ran to its end.
inline std::string run(std::function<void()> program)
{
    twin::LaunchOptions options;
    options.host_threads = 1;
    return run_with(options, std::move(program));
}
inline std::string run_aic(std::function<void()> program)
{
    return run([&] {
        if ASCEND_IS_AIC
            program();
    });
}
inline std::string run_aiv(std::function<void()> program)
{
    return run([&] {
        if (ASCEND_IS_AIV && GetSubBlockIdx() == 0) program();
    });
}

template <typename T>
GlobalTensor<T> gm(std::vector<T>& data)
{
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer(data.data());
    return tensor;
}

inline std::vector<uint8_t> random_bytes(size_t count, uint32_t seed)
{
    std::mt19937 random(seed);
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = uint8_t(random());
    return bytes;
}

// Codes of finite e4m3 values.
inline std::vector<fp8_e4m3fn_t> random_e4m3(size_t count, uint32_t seed)
{
    std::vector<fp8_e4m3fn_t> codes(count);
    std::vector<uint8_t> bytes = random_bytes(count, seed);
    for (size_t i = 0; i < count; ++i) codes[i].bits = (bytes[i] & 0x7F) == 0x7F ? 0 : bytes[i];
    return codes;
}

inline int finish()
{
    if (failures == 0) std::printf("ok\n");
    return failures != 0;
}

// Included before each NPU source that the stand-in compiler (bisheng.py) gives to g++: qualifiers mean nothing, and
// kernel<<<..>>>(..) has become virtual_device::launch(kernel, ..)(..), which runs the kernel on the twin.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "../../kernels_ascendc/attention.h"
#include "../attention_tensors.h"
#include "../launch.h"
#include "virtual_device.h"

#define __aicpu__

namespace virtual_device {

struct CubeKernel {
    using Function = void (*)(qbsa::AttentionArgs);
    struct Call {
        Function kernel;
        qbsa::AttentionArgs args;
    };

    Function kernel;
    int32_t cores;
    void* stream;

    void operator()(const qbsa::AttentionArgs& args) const
    {
        const Call call{kernel, args};
        virtual_device_launch(run, cores, stream, &call, sizeof call);
    }

    static const char* run(const void* queued, int32_t cores)
    {
        thread_local std::string error;
        const Call& call = *static_cast<const Call*>(queued);
        twin::LaunchOptions options;
        options.groups = cores;
        options.gm = twin::attention_tensors(call.args);
        error = twin::launch(options, [&call] { call.kernel(call.args); }).error;
        return error.empty() ? nullptr : error.c_str();
    }
};

struct AicpuKernel {
    using Function = uint32_t (*)(void*);

    Function kernel;
    void* stream;

    void operator()(const void* args, size_t bytes) const
    {
        std::vector<char> call(sizeof kernel + bytes);
        std::memcpy(call.data(), &kernel, sizeof kernel);
        std::memcpy(call.data() + sizeof kernel, args, bytes);
        virtual_device_launch(run, 1, stream, call.data(), call.size());
    }

    static const char* run(const void* queued, int32_t)
    {
        char* call = const_cast<char*>(static_cast<const char*>(queued));
        Function kernel;
        std::memcpy(&kernel, call, sizeof kernel);
        return kernel(call + sizeof kernel) == 0 ? nullptr : "the AICPU kernel failed";
    }
};

inline CubeKernel launch(CubeKernel::Function kernel, int32_t cores, int, void* stream)
{
    return {kernel, cores, stream};
}

inline AicpuKernel launch(AicpuKernel::Function kernel, int32_t, std::nullptr_t, void* stream)
{
    return {kernel, stream};
}

}  // namespace virtual_device

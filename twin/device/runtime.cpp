// libascendcl.so of the virtual device: the part of the CANN runtime that torch_npu needs to hold tensors, copy them,
// and keep streams, events and graphs in order, in host memory. A test aid: it computes nothing but this package's
// kernels. build.py answers the other functions that torch_npu links.
#include <acl/acl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>

#include "stream.h"
#include "virtual_device.h"

using virtual_device::Clock;
using virtual_device::Event;
using virtual_device::Graph;
using virtual_device::Mark;
using virtual_device::Stream;

namespace {

constexpr int kDevices = 2;
constexpr int64_t kCubeCores = 32;                 // of an Ascend950PR_9589
constexpr size_t kMemoryBytes = size_t{8} << 30;   // told, not kept
constexpr size_t kAlignment = 512;                 // of device memory
constexpr int kUnwritten = 0xFF;                   // NaN in every floating-point type
constexpr aclError kStreamOfOtherDevice = 107003;  // ACL_ERROR_RT_STREAM_CONTEXT
constexpr aclError kKernelFailed = 507015;         // ACL_ERROR_RT_AICORE_EXCEPTION
constexpr aclError kNoMemory = 207001;
constexpr aclError kRealDevice = 507899;  // ACL_ERROR_RT_DRV_INTERNAL_ERROR

thread_local int current_device = 0;
thread_local aclError launch_error = ACL_SUCCESS;
int contexts[kDevices];
std::mutex mutex;  // of streams, graphs and last_message
std::set<Stream*> streams;
std::map<aclmdlRI, std::shared_ptr<Graph>> graphs;  // captured and not destroyed
std::string last_message;
std::atomic<int> captures{0};
std::atomic<int32_t> slow_host_ms{0};
std::atomic<int32_t> slow_stream_ms{0};
std::atomic<int64_t> kernels{0};
std::atomic<bool> refuse_launch{false};
std::atomic<bool> fail_kernel{false};

aclError fail(aclError code, const std::string& message)
{
    std::lock_guard<std::mutex> lock(mutex);
    last_message = "virtual device: " + message;
    return code;
}

Stream* default_stream(int device)
{
    static Stream first(0), second(1);
    return device == 0 ? &first : &second;
}

Stream* of(aclrtStream stream) { return stream ? static_cast<Stream*>(stream) : default_stream(current_device); }

aclError create_stream(aclrtStream* stream)
{
    auto* created = new Stream(current_device);
    std::lock_guard<std::mutex> lock(mutex);
    streams.insert(created);
    *stream = created;
    return ACL_SUCCESS;
}

aclError add(aclrtStream stream, virtual_device::Work work)
{
    Stream* target = of(stream);
    if (target->device() != current_device) {
        return fail(kStreamOfOtherDevice, "the stream is of device " + std::to_string(target->device()) +
                                              ", the current device is " + std::to_string(current_device));
    }
    target->add(std::move(work));
    return ACL_SUCCESS;
}

aclError synchronize(Stream* stream)
{
    if (stream->is_captured()) return fail(ACL_ERROR_RT_STREAM_CAPTURED, "a captured stream cannot be waited for");
    return stream->drain();
}

aclError allocate(void** pointer, size_t bytes)
{
    const size_t rounded = (std::max(bytes, size_t{1}) + kAlignment - 1) / kAlignment * kAlignment;
    if (posix_memalign(pointer, kAlignment, rounded) != 0) return fail(kNoMemory, "out of memory");
    std::memset(*pointer, kUnwritten, rounded);
    return ACL_SUCCESS;
}

void sleep_ms(int32_t ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

extern "C" {

// Life of the process

aclError aclInit(const char*)
{
    if (access("/dev/davinci_manager", F_OK) == 0 || access("/dev/davinci0", F_OK) == 0) {
        return fail(kRealDevice, "this machine has an NPU; remove the virtual device from LD_LIBRARY_PATH");
    }
    fprintf(stderr, "virtual device: npu tensors are host memory, only copies and qbsa's operators work; a test aid\n");
    return ACL_SUCCESS;
}

aclError aclFinalize() { return ACL_SUCCESS; }

const char* aclGetRecentErrMsg()
{
    thread_local std::string copy;
    std::lock_guard<std::mutex> lock(mutex);
    copy = std::exchange(last_message, "");
    return copy.c_str();
}

void aclAppLog(aclLogLevel, const char*, const char*, uint32_t, const char*, ...) {}

const char* aclrtGetSocName()
{
    const char* name = getenv("QBSA_VIRTUAL_SOC");
    return name ? name : "Ascend950PR_9589";
}

aclError aclrtGetLastError(aclrtLastErrLevel) { return std::exchange(launch_error, ACL_SUCCESS); }
aclError aclrtPeekAtLastError(aclrtLastErrLevel) { return launch_error; }

// Devices

aclError aclrtGetDeviceCount(uint32_t* count)
{
    *count = kDevices;
    return ACL_SUCCESS;
}

aclError aclrtSetDevice(int32_t device)
{
    if (device < 0 || device >= kDevices) return fail(ACL_ERROR_RT_INVALID_DEVICEID, "there are two devices");
    current_device = device;
    return ACL_SUCCESS;
}

aclError aclrtGetDevice(int32_t* device)
{
    *device = current_device;
    return ACL_SUCCESS;
}

aclError aclrtResetDevice(int32_t) { return ACL_SUCCESS; }

aclError aclrtGetCurrentContext(aclrtContext* context)
{
    *context = &contexts[current_device];
    return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context)
{
    current_device = static_cast<int>(static_cast<int*>(context) - contexts);
    return ACL_SUCCESS;
}

aclError aclrtGetPrimaryCtxState(int32_t, uint32_t* flags, int32_t* active)
{
    *flags = 0;
    *active = 1;
    return ACL_SUCCESS;
}

aclError aclrtGetDeviceInfo(uint32_t, aclrtDevAttr attribute, int64_t* value)
{
    if (attribute != ACL_DEV_ATTR_CUBE_CORE_NUM) return fail(ACL_ERROR_RT_PARAM_INVALID, "unknown device attribute");
    *value = kCubeCores;
    return ACL_SUCCESS;
}

aclError aclrtGetSysParamOpt(aclSysParamOpt, int64_t* value)
{
    *value = 0;
    return ACL_SUCCESS;
}

aclError aclrtCtxGetSysParamOpt(aclSysParamOpt option, int64_t* value) { return aclrtGetSysParamOpt(option, value); }

aclError aclGetDeviceCapability(uint32_t, aclDeviceInfo, int64_t* value)
{
    *value = kCubeCores;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeDevice()
{
    aclError result = synchronize(default_stream(current_device));
    std::set<Stream*> all;
    {
        std::lock_guard<std::mutex> lock(mutex);
        all = streams;
    }
    for (Stream* stream : all) {
        if (stream->device() != current_device) continue;
        const aclError code = synchronize(stream);
        if (result == ACL_SUCCESS) result = code;
    }
    return result;
}

aclError aclrtSynchronizeDeviceWithTimeout(int32_t) { return aclrtSynchronizeDevice(); }

// Memory

aclError aclrtMalloc(void** pointer, size_t bytes, aclrtMemMallocPolicy) { return allocate(pointer, bytes); }
aclError aclrtMallocAlign32(void** pointer, size_t bytes, aclrtMemMallocPolicy) { return allocate(pointer, bytes); }
aclError aclrtMallocHost(void** pointer, size_t bytes) { return allocate(pointer, bytes); }
aclError aclrtMallocHostWithCfg(void** pointer, uint64_t bytes, aclrtMallocConfig*) { return allocate(pointer, bytes); }

aclError aclrtFree(void* pointer)
{
    free(pointer);
    return ACL_SUCCESS;
}

aclError aclrtFreeHost(void* pointer) { return aclrtFree(pointer); }

aclError aclrtGetMemInfo(aclrtMemAttr, size_t* free_bytes, size_t* total_bytes)
{
    *free_bytes = *total_bytes = kMemoryBytes;
    return ACL_SUCCESS;
}

aclError aclrtMemcpy(void* to, size_t most, const void* from, size_t bytes, aclrtMemcpyKind)
{
    if (bytes > most) return fail(ACL_ERROR_RT_PARAM_INVALID, "a copy is larger than its target");
    if (captures > 0) return fail(ACL_ERROR_RT_STREAM_CAPTURED, "no synchronous copy during a capture");
    std::memmove(to, from, bytes);
    return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* to, size_t most, const void* from, size_t bytes, aclrtMemcpyKind, aclrtStream stream)
{
    if (bytes > most) return fail(ACL_ERROR_RT_PARAM_INVALID, "a copy is larger than its target");
    sleep_ms(slow_host_ms);
    return add(stream, [to, from, bytes, ms = slow_stream_ms.load()] {
        sleep_ms(ms);
        std::memmove(to, from, bytes);
        return ACL_SUCCESS;
    });
}

aclError aclrtMemset(void* to, size_t, int32_t value, size_t bytes)
{
    std::memset(to, value, bytes);
    return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* to, size_t most, int32_t value, size_t bytes, aclrtStream stream)
{
    return add(stream, [=] { return aclrtMemset(to, most, value, bytes); });
}

// Streams

aclError aclrtCreateStream(aclrtStream* stream) { return create_stream(stream); }
aclError aclrtCreateStreamWithConfig(aclrtStream* stream, uint32_t, uint32_t) { return create_stream(stream); }

aclError aclrtDestroyStream(aclrtStream stream)
{
    {
        std::lock_guard<std::mutex> lock(mutex);
        streams.erase(static_cast<Stream*>(stream));
    }
    delete static_cast<Stream*>(stream);
    return ACL_SUCCESS;
}

aclError aclrtDestroyStreamForce(aclrtStream stream) { return aclrtDestroyStream(stream); }

aclError aclrtStreamGetId(aclrtStream stream, int32_t* id)
{
    *id = static_cast<int32_t>(reinterpret_cast<uintptr_t>(stream) >> 4 & 0x7FFFFFFF);
    return ACL_SUCCESS;
}

aclError aclrtStreamQuery(aclrtStream stream, aclrtStreamStatus* status)
{
    *status = of(stream)->idle() ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtSynchronizeStream(aclrtStream stream) { return synchronize(of(stream)); }
aclError aclrtSynchronizeStreamWithTimeout(aclrtStream stream, int32_t) { return synchronize(of(stream)); }

// Events

aclError aclrtCreateEvent(aclrtEvent* event)
{
    *event = new Event;
    return ACL_SUCCESS;
}

aclError aclrtCreateEventWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }
aclError aclrtCreateEventExWithFlag(aclrtEvent* event, uint32_t) { return aclrtCreateEvent(event); }

aclError aclrtDestroyEvent(aclrtEvent event)
{
    delete static_cast<Event*>(event);
    return ACL_SUCCESS;
}

aclError aclrtRecordEvent(aclrtEvent event, aclrtStream stream)
{
    auto* recorded = static_cast<Event*>(event);
    if (of(stream)->is_captured()) {
        recorded->graph = of(stream)->graph;
        return ACL_SUCCESS;
    }
    recorded->graph = nullptr;
    recorded->mark = std::make_shared<Mark>();
    return add(stream, [mark = recorded->mark] {
        mark->reach();
        return ACL_SUCCESS;
    });
}

aclError aclrtStreamWaitEvent(aclrtStream stream, aclrtEvent event)
{
    auto* awaited = static_cast<Event*>(event);
    if (awaited->graph && awaited->graph->open) {
        of(stream)->graph = awaited->graph;  // the stream joins the capture
        return ACL_SUCCESS;
    }
    if (!awaited->mark) return ACL_SUCCESS;
    return add(stream, [mark = awaited->mark] {
        mark->wait();
        return ACL_SUCCESS;
    });
}

aclError aclrtResetEvent(aclrtEvent, aclrtStream) { return ACL_SUCCESS; }

aclError aclrtSynchronizeEvent(aclrtEvent event)
{
    auto* awaited = static_cast<Event*>(event);
    if (awaited->graph && awaited->graph->open) return fail(ACL_ERROR_RT_EVENT_CAPTURED, "the event is captured");
    if (awaited->mark) awaited->mark->wait();
    return ACL_SUCCESS;
}

aclError aclrtQueryEventStatus(aclrtEvent event, aclrtEventRecordedStatus* status)
{
    const auto& mark = static_cast<Event*>(event)->mark;
    *status = !mark || mark->reached() ? ACL_EVENT_RECORDED_STATUS_COMPLETE : ACL_EVENT_RECORDED_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtQueryEventWaitStatus(aclrtEvent event, aclrtEventWaitStatus* status)
{
    const auto& mark = static_cast<Event*>(event)->mark;
    *status = !mark || mark->reached() ? ACL_EVENT_WAIT_STATUS_COMPLETE : ACL_EVENT_WAIT_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError aclrtEventElapsedTime(float* ms, aclrtEvent start, aclrtEvent end)
{
    const auto& from = static_cast<Event*>(start)->mark;
    const auto& to = static_cast<Event*>(end)->mark;
    if (!from || !to) return fail(ACL_ERROR_RT_PARAM_INVALID, "an event was never recorded");
    *ms = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
    return ACL_SUCCESS;
}

// Graphs

aclError aclmdlRICaptureBegin(aclrtStream stream, aclmdlRICaptureMode)
{
    of(stream)->graph = std::make_shared<Graph>();
    ++captures;
    return ACL_SUCCESS;
}

aclError aclmdlRICaptureGetInfo(aclrtStream stream, aclmdlRICaptureStatus* status, aclmdlRI* graph)
{
    const bool captured = of(stream)->is_captured();
    if (status) *status = captured ? ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE : ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    if (graph) *graph = captured ? of(stream)->graph.get() : nullptr;
    return ACL_SUCCESS;
}

aclError aclmdlRICaptureEnd(aclrtStream stream, aclmdlRI* graph)
{
    if (!of(stream)->is_captured()) return fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED, "the stream is not captured");
    of(stream)->graph->open = false;
    --captures;
    *graph = of(stream)->graph.get();  // as aclmdlRICaptureGetInfo named it
    std::lock_guard<std::mutex> lock(mutex);
    graphs[*graph] = of(stream)->graph;
    return ACL_SUCCESS;
}

aclError aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode*) { return ACL_SUCCESS; }

aclError aclmdlRIExecuteAsync(aclmdlRI graph, aclrtStream stream)
{
    std::shared_ptr<Graph> replayed;
    {
        std::lock_guard<std::mutex> lock(mutex);
        replayed = graphs.at(graph);
    }
    return add(stream, [replayed] {
        int32_t result = 0;
        for (const virtual_device::Work& work : replayed->works) {
            const int32_t code = work();
            if (result == 0) result = code;
        }
        return result;
    });
}

aclError aclmdlRIDestroy(aclmdlRI graph)
{
    std::lock_guard<std::mutex> lock(mutex);
    graphs.erase(graph);
    return ACL_SUCCESS;
}

// virtual_device.h

void virtual_device_launch(VirtualKernel kernel, int32_t cores, void* stream, const void* args, size_t bytes)
{
    if (refuse_launch.exchange(false)) {
        launch_error = fail(ACL_ERROR_RT_PARAM_INVALID, "this launch is refused, as asked for");
        return;
    }
    const char* first = static_cast<const char*>(args);
    launch_error = add(stream, [kernel, cores, copy = std::vector<char>(first, first + bytes)] {
        const char* error = fail_kernel.exchange(false) ? "fails as asked for" : kernel(copy.data(), cores);
        ++kernels;
        return error ? fail(kKernelFailed, error) : ACL_SUCCESS;
    });
}

void virtual_device_slow_copies(int32_t host_ms, int32_t stream_ms)
{
    slow_host_ms = host_ms;
    slow_stream_ms = stream_ms;
}

void virtual_device_refuse_launch() { refuse_launch = true; }

void virtual_device_fail_kernel() { fail_kernel = true; }

int64_t virtual_device_kernels() { return kernels; }

}  // extern "C"

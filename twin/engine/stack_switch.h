// Tells AddressSanitizer and ThreadSanitizer which stack runs; nothing in other builds.
#pragma once
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define QBSA_NO_SANITIZE_THREAD __attribute__((no_sanitize("thread")))
#else
#define QBSA_NO_SANITIZE_THREAD
#endif

namespace twin {

// One object for each fiber. outside_: the stack that resumed it.
class StackSwitch {
public:
#if defined(__SANITIZE_ADDRESS__)
    void before_resume(const void* stack, size_t bytes)
    {
        __sanitizer_start_switch_fiber(&outside_fake_, stack, bytes);
    }
    void after_resume() { __sanitizer_finish_switch_fiber(outside_fake_, nullptr, nullptr); }
    void entered() { __sanitizer_finish_switch_fiber(nullptr, &outside_, &outside_bytes_); }
    void before_suspend() { __sanitizer_start_switch_fiber(&inside_fake_, outside_, outside_bytes_); }
    void after_suspend() { __sanitizer_finish_switch_fiber(inside_fake_, &outside_, &outside_bytes_); }
    void before_end() { __sanitizer_start_switch_fiber(nullptr, outside_, outside_bytes_); }

private:
    void* outside_fake_ = nullptr;
    void* inside_fake_ = nullptr;
    const void* outside_ = nullptr;
    size_t outside_bytes_ = 0;
#elif defined(__SANITIZE_THREAD__)
    StackSwitch() = default;
    StackSwitch(const StackSwitch&) = delete;
    StackSwitch& operator=(const StackSwitch&) = delete;
    ~StackSwitch()
    {
        if (inside_) __tsan_destroy_fiber(inside_);
    }
    // A function that is entered on one stack and left on another must not be counted on either.
    QBSA_NO_SANITIZE_THREAD void before_resume(const void*, size_t)
    {
        if (!inside_) inside_ = __tsan_create_fiber(0);
        outside_ = __tsan_get_current_fiber();
        __tsan_switch_to_fiber(inside_, 0);
    }
    QBSA_NO_SANITIZE_THREAD void before_suspend() { __tsan_switch_to_fiber(outside_, 0); }
    QBSA_NO_SANITIZE_THREAD void before_end() { __tsan_switch_to_fiber(outside_, 0); }
    void after_resume() {}
    void entered() {}
    void after_suspend() {}

private:
    void* inside_ = nullptr;
    void* outside_ = nullptr;
#else
    void before_resume(const void*, size_t) {}
    void after_resume() {}
    void entered() {}
    void before_suspend() {}
    void after_suspend() {}
    void before_end() {}
#endif
};

}  // namespace twin

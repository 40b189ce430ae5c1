// A function with a stack of its own that can be left in the middle and entered again, on one host thread.
#pragma once
#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <functional>
#include <new>
#include <utility>

#include "stack_switch.h"

namespace twin {

class Fiber {
public:
    Fiber() = default;
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber()
    {
        if (stack_) munmap(stack_, kStackBytes);
    }

    // The body must not let an exception escape. A fiber may be started again once its body has returned.
    void start(std::function<void()> body)
    {
        if (!stack_) allocate_stack();
        body_ = std::move(body);
        finished_ = false;
        getcontext(&inside_);
        inside_.uc_stack.ss_sp = stack_;
        inside_.uc_stack.ss_size = kStackBytes;
        inside_.uc_link = &outside_;
        uint64_t self = reinterpret_cast<uint64_t>(this);
        makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self >> 32),
                    static_cast<unsigned>(self));
    }

    void resume()
    {
        switch_.before_resume(stack_, kStackBytes);
        swapcontext(&outside_, &inside_);
        switch_.after_resume();
    }
    void suspend()
    {
        switch_.before_suspend();
        swapcontext(&inside_, &outside_);
        switch_.after_suspend();
    }
    bool finished() const { return finished_; }

private:
    static constexpr size_t kStackBytes = 512 * 1024;
    static constexpr size_t kGuardBytes = 64 * 1024;  // a multiple of every page size in use

    void allocate_stack()
    {
        stack_ = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack_ == MAP_FAILED) {
            stack_ = nullptr;
            throw std::bad_alloc();
        }
        mprotect(stack_, kGuardBytes, PROT_NONE);
    }

    QBSA_NO_SANITIZE_THREAD static void enter(unsigned high, unsigned low)
    {
        Fiber* self = reinterpret_cast<Fiber*>(uint64_t(high) << 32 | low);
        self->switch_.entered();
        self->body_();
        self->finished_ = true;
        self->switch_.before_end();
    }

    ucontext_t inside_, outside_;
    StackSwitch switch_;
    void* stack_ = nullptr;
    std::function<void()> body_;
    bool finished_ = true;
};

}  // namespace twin

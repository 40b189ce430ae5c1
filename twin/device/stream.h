// Streams, events and captured graphs of the virtual device: in-order queues, each with a thread of its own.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace virtual_device {

using Work = std::function<int32_t()>;  // 0, or the error that the next synchronisation of the stream returns
using Clock = std::chrono::steady_clock;

// One recording of an event: reached once, waited for by streams and by the host.
class Mark {
public:
    void reach()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        time_ = Clock::now();
        reached_ = true;
        changed_.notify_all();
    }

    void wait()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return reached_; });
    }

    bool reached()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return reached_;
    }

    Clock::time_point time()
    {
        wait();
        return time_;
    }

private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool reached_ = false;
    Clock::time_point time_;
};

// What a capture recorded, of all its streams, in the order of the host's calls. That order respects every event, so a
// replay runs it on one stream and the events inside need no work.
struct Graph {
    std::vector<Work> works;
    bool open = true;
};

struct Event {
    std::shared_ptr<Mark> mark;    // null: never recorded
    std::shared_ptr<Graph> graph;  // the capture it was last recorded in
};

class Stream {
public:
    explicit Stream(int device) : device_(device), worker_([this] { run(); }) {}

    ~Stream()
    {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            closing_ = true;
            changed_.notify_all();
        }
        worker_.join();
    }

    int device() const { return device_; }

    // Queues the work or, while the stream is captured, records it.
    void add(Work work)
    {
        if (is_captured()) {
            graph->works.push_back(std::move(work));
            return;
        }
        std::lock_guard<std::mutex> lock(mutex_);
        queue_.push_back(std::move(work));
        changed_.notify_all();
    }

    bool is_captured() const { return graph && graph->open; }

    bool idle()
    {
        std::lock_guard<std::mutex> lock(mutex_);
        return queue_.empty();
    }

    // Waits until all work is done; the first error since the last call.
    int32_t drain()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return queue_.empty(); });
        return std::exchange(error_, 0);
    }

    std::shared_ptr<Graph> graph;  // the capture this stream takes part in; touched by the thread that captures

private:
    void run()
    {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            changed_.wait(lock, [this] { return closing_ || !queue_.empty(); });
            if (queue_.empty()) return;
            Work work = queue_.front();  // stays in the queue until it is done: see drain
            lock.unlock();
            const int32_t code = work();
            lock.lock();
            if (error_ == 0) error_ = code;
            queue_.pop_front();
            changed_.notify_all();
        }
    }

    int device_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> queue_;
    int32_t error_ = 0;
    bool closing_ = false;
    std::thread worker_;  // last: it uses the others
};

}  // namespace virtual_device

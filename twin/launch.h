// Runs a kernel: every group once, spread over host threads.
#pragma once
#include <sched.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "engine/group.h"

namespace twin {

struct LaunchOptions {
    int groups = 1;
    int host_threads = 0;                // 0: every CPU this process may use
    std::vector<GmRange> gm;             // empty: all of GM may be touched
    Observer* observer = nullptr;        // called from all host threads
    const Order* order = nullptr;        // null: program order
    bool race = false;                   // checked variant only: see engine/race.h
    bool wait_blocks_core = false;       // the rule of older architectures: a cross-core wait holds up all pipes
    int kernel = 0;                      // which of several in a call, for log and mutation
    const Mutation* mutation = nullptr;  // null: none
    EffectLog* log = nullptr;            // null: none
    Names names;                         // for messages
};

struct Result {
    std::string error;  // empty: every group ran to its end
    int host_threads = 0;
    VectorCounts vector_counts;  // by id, see VectorFunctions

    bool ok() const { return error.empty(); }
};

inline int available_cpus()
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
    return std::max(1u, std::thread::hardware_concurrency());
}

// program runs on every core of every group: AIC, AIV0 and AIV1. The first error stops all groups and is the result's.
inline Result launch(const LaunchOptions& options, std::function<void()> program)
{
    const ProgramOrder program_order;
    LaunchContext context;
    context.groups = options.groups;
    context.program = std::move(program);
    context.observer = options.observer;
    context.order = options.order ? options.order : &program_order;
    for (const GmRange& range : options.gm) context.gm.add(range);
    context.names = options.names;
    context.race = options.race;
    context.wait_blocks_core = options.wait_blocks_core;
    context.kernel = options.kernel;
    context.mutation = options.mutation;
    context.log = options.log;
    if (options.log) options.log->buffers(options.names);

    Result result;
    const int wanted = options.host_threads > 0 ? options.host_threads : available_cpus();
    const int threads_wanted = std::min(wanted, options.groups);
    std::atomic<int> next{0};
    std::mutex mutex;
    auto run_groups = [&](VectorCounts& counts) -> std::string {
        auto group = std::make_unique<Group>();
        std::string error;
        for (int index = next++; error.empty() && index < options.groups && !context.stop; index = next++) {
            error = group->run(context, index);
        }
        counts = group->vector_counts;
        return error;
    };
    auto work = [&] {
        VectorCounts counts;
        std::string error;
        try {
            error = run_groups(counts);
        } catch (const std::exception& e) {
            error = e.what();
        }
        std::lock_guard<std::mutex> lock(mutex);
        if (!error.empty()) {
            context.stop = true;
            if (result.error.empty()) result.error = error;
        }
        result.vector_counts.add(counts);
    };
    std::vector<std::thread> threads;
    try {
        for (int i = 1; i < threads_wanted; ++i) threads.emplace_back(work);
    } catch (const std::system_error&) {  // the system has no more threads; those that run do all the work
    }
    work();
    for (std::thread& thread : threads) thread.join();
    result.host_threads = 1 + static_cast<int>(threads.size());
    return result;
}

}  // namespace twin

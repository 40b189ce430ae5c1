// The CPU library: the kernel's own source, run by the twin.
#include "twin.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "../kernels_ascendc/attention.h"
#include "../kernels_ascendc/contract_json.h"
#include "../metadata/schedule.h"
#include "attention_names.h"
#include "attention_tensors.h"
#include "clock/clock.h"
#include "engine/hostile.h"
#include "launch.h"

namespace {

// A plan made on the host serves the common chip unless the caller names another number.
constexpr qbsa::i32 kDefaultCores = 32;

enum class Mode { kFast, kHostile, kRace };

thread_local std::string last_error;
thread_local Mode mode = Mode::kFast;
thread_local std::unique_ptr<twin::Mutation> mutation;
thread_local std::string clock_report = "{}";
std::atomic<int32_t> host_threads{0};
std::atomic<int64_t> stores{0};
std::mutex report_mutex;
std::string report = "{}";

class CountStores : public twin::Observer {
public:
    virtual void next_launch() {}

    void executed(const twin::Core&, const twin::Instruction& instruction) override
    {
        if (instruction.kind != twin::Kind::kRun || instruction.call.pipe != PIPE_MTE3) return;
        for (int i = 0; i < instruction.accesses; ++i) {
            const twin::Access& access = instruction.access[i];
            if (access.write && access.region.memory == twin::Memory::kGm) {
                stores.fetch_add(1, std::memory_order_relaxed);
            }
        }
    }
};

class CountAndRecord final : public CountStores {
public:
    explicit CountAndRecord(twin::clock::Recorder& recorder) : recorder_(recorder) {}
    void executed(const twin::Core& core, const twin::Instruction& instruction) override
    {
        CountStores::executed(core, instruction);
        recorder_.executed(core, instruction);
    }
    void scalar(const twin::Core& core, const twin::ScalarCall& call) override { recorder_.scalar(core, call); }
    void next_launch() override { recorder_.next_launch(); }

private:
    twin::clock::Recorder& recorder_;
};

int32_t refuse(const std::string& reason)
{
    last_error = reason;
    return 1;
}

// Text inside a JSON string; names of functions hold nothing worse than quotes.
std::string quoted(const std::string& text)
{
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + "\"";
}

std::string ops_json(const twin::VectorCount& count)
{
    std::string text;
    for (int op = 0; op < twin::kVectorOps; ++op) {
        if (count.ops[op] == 0) continue;
        text += (text.empty() ? "" : ", ") + quoted(twin::kVectorOpName[op]) + ": " + std::to_string(count.ops[op]);
    }
    return text;
}

std::string report_json(int groups, twin::Result& result)
{
    std::string functions;
    for (int id = 0; id < static_cast<int>(result.vector_counts.size()); ++id) {
        const twin::VectorCount& count = result.vector_counts.of(id);
        if (count.calls == 0) continue;
        functions += (functions.empty() ? "" : ", ") + quoted(twin::VectorFunctions::instance().name(id)) +
                     ": {\"calls\": " + std::to_string(count.calls) + ", \"ops\": {" + ops_json(count) + "}}";
    }
    return "{\"groups\": " + std::to_string(groups) + ", \"host_threads\": " + std::to_string(result.host_threads) +
           ", \"vector_functions\": {" + functions + "}}";
}

bool cores_allowed(int32_t cores)
{
    if (cores >= 0 && cores <= qbsa::kMaxCores) return true;
    last_error = "cores is " + std::to_string(cores) + ", allowed is 0.." + std::to_string(qbsa::kMaxCores);
    return false;
}

// By default as many as the plan names.
int groups_of(const qbsa::AttentionArgs& args)
{
    if (args.cores > 0) return args.cores;
    const qbsa::i32 planned = reinterpret_cast<const qbsa::PlanHeader*>(args.plan)->cores;
    return planned >= 1 && planned <= qbsa::kMaxCores ? planned : 1;  // the kernel refuses other plans
}

const char* meaning_of(qbsa::i32 status)
{
#define X(name, value, meaning) \
    if (status == value) return meaning;
    QBSA_STATUS(X)
#undef X
    return "the kernel left an unknown status";
}

// Error for a value that is neither rule.
bool wait_blocks_core()
{
    const char* rule = std::getenv("QBSA_TWIN_WAIT");
    const std::string text = rule ? rule : "pipe";
    if (text == "pipe" || text == "core") return text == "core";
    throw twin::Error("QBSA_TWIN_WAIT must be pipe or core; got \"" + text + "\"");
}

twin::LaunchOptions options_of(const qbsa::AttentionArgs& args)
{
    twin::LaunchOptions options;
    options.groups = groups_of(args);
    options.host_threads = host_threads;
    options.gm = twin::attention_tensors(args);
    options.names = twin::attention_names();
    options.mutation = mutation.get();
    options.wait_blocks_core = wait_blocks_core();
    return options;
}

// Everything that a call writes for its caller.
std::vector<uint8_t> copy_outputs(const qbsa::AttentionArgs& args)
{
    std::vector<uint8_t> bytes;
    for (const twin::GmRange& range : twin::attention_tensors(args)) {
        if (range.use != twin::GmUse::kWrite) continue;
        const uint8_t* begin = reinterpret_cast<const uint8_t*>(range.begin);
        bytes.insert(bytes.end(), begin, begin + range.bytes);
    }
    return bytes;
}

std::string compare_outputs(const qbsa::AttentionArgs& args, const std::vector<uint8_t>& expected)
{
    size_t at = 0;
    for (const twin::GmRange& range : twin::attention_tensors(args)) {
        if (range.use != twin::GmUse::kWrite) continue;
        const uint8_t* begin = reinterpret_cast<const uint8_t*>(range.begin);
        const auto pair = std::mismatch(begin, begin + range.bytes, expected.begin() + at);
        if (pair.first != begin + range.bytes) {
            return twin::format(
                "hostile: byte %lld of %s is %#x with consumers first and %#x with producers first; the "
                "result depends on an order that no flag fixes",
                static_cast<long long>(pair.first - begin), range.name, *pair.second, *pair.first);
        }
        at += range.bytes;
    }
    return "";
}

// Both kernels of a call; the second only for plans with room for splits.
twin::Result run_kernels(const qbsa::AttentionArgs& args, const twin::LaunchOptions& options, CountStores& observer)
{
    twin::Result result = twin::launch(options, [&args] { qbsa::run_attention(args); });
    if (!result.ok() || args.plan_words != qbsa::kSplitPlanWords) return result;
    observer.next_launch();
    twin::LaunchOptions merge_options = options;
    merge_options.kernel = 1;
    merge_options.names = twin::merge_names();
    twin::Result merged = twin::launch(merge_options, [&args] { qbsa::run_merge(args); });
    merged.vector_counts.add(result.vector_counts);
    return merged;
}

twin::Result run_hostile(const qbsa::AttentionArgs& args, twin::LaunchOptions& options, CountStores& observer)
{
    const twin::ConsumersFirst consumers_first;
    const twin::ProducersFirst producers_first;
    options.order = &consumers_first;
    const twin::Result result = run_kernels(args, options, observer);
    if (!result.ok()) return result;
    const std::vector<uint8_t> outputs = copy_outputs(args);
    options.order = &producers_first;
    twin::Result second = run_kernels(args, options, observer);
    if (second.ok()) second.error = compare_outputs(args, outputs);
    return second;
}

int32_t attention(const qbsa::AttentionArgs& args, CountStores& observer, Mode mode)
{
    twin::LaunchOptions options = options_of(args);
    options.observer = &observer;
    options.race = mode == Mode::kRace;
    std::unique_ptr<twin::EffectLog> log;
    if (const char* path = std::getenv("QBSA_TWIN_LOG")) log = std::make_unique<twin::EffectLog>(path);
    options.log = log.get();
    stores = 0;
    const bool hostile = mode == Mode::kHostile;
    twin::Result result = hostile ? run_hostile(args, options, observer) : run_kernels(args, options, observer);
    if (!result.ok()) return refuse(result.error);
    for (int group = 0; group < options.groups; ++group) {
        const auto status = *reinterpret_cast<const qbsa::i32*>(args.workspace + group * qbsa::kStatusBytes);
        if (status != static_cast<qbsa::i32>(qbsa::Status::kOk)) {
            last_error = meaning_of(status);
            return status;
        }
    }
    std::lock_guard<std::mutex> lock(report_mutex);
    report = report_json(options.groups, result);
    return 0;
}

int32_t attention_timed(const qbsa::AttentionArgs& args, const twin::clock::Request& request)
{
    if (!twin::kChecked) return refuse("mode timed needs the checked variant of the twin");
    twin::clock::Recorder recorder(groups_of(args), request.costs);
    CountAndRecord observer(recorder);
    const int32_t code = attention(args, observer, Mode::kFast);
    if (code == 0) clock_report = twin::clock::time_and_report(recorder, request);
    return code;
}

// No exception leaves the library.
template <class Body>
int32_t guarded(Body body)
{
    try {
        last_error.clear();
        return body();
    } catch (const std::exception& e) {
        return refuse(e.what());
    }
}

}  // namespace

const char* qbsa_contract() { return qbsa::contract_json(); }

int64_t qbsa_plan_words(const qbsa::ScheduleArgs* args) { return qbsa::plan_words(*args); }

int64_t qbsa_workspace_bytes(const qbsa::AttentionArgs* args) { return qbsa::workspace::bytes(*args); }

int32_t qbsa_schedule(const qbsa::ScheduleArgs* args, void*)
{
    return guarded([args] {
        if (!cores_allowed(args->cores)) return 1;
        qbsa::schedule(*args, args->cores > 0 ? args->cores : kDefaultCores, reinterpret_cast<qbsa::Plan*>(args->plan));
        return 0;
    });
}

int32_t qbsa_attention(const qbsa::AttentionArgs* args, void*)
{
    return guarded([args] {
        CountStores observer;
        return cores_allowed(args->cores) ? attention(*args, observer, mode) : 1;
    });
}

int32_t qbsa_twin_attention_timed(const qbsa::AttentionArgs* args, const char* chip, const char* trace, int32_t traced)
{
    return guarded([=] {
        const twin::clock::Request request{twin::clock::find_chip(chip), {}, trace ? trace : "", traced};
        return cores_allowed(args->cores) ? attention_timed(*args, request) : 1;
    });
}

const char* qbsa_twin_chips()
{
    static const std::string text = twin::clock::chips_json();
    return text.c_str();
}

const char* qbsa_twin_clock_report() { return clock_report.c_str(); }

const char* qbsa_last_error() { return last_error.c_str(); }

int32_t qbsa_twin_set_threads(int32_t threads)
{
    if (threads < 0) return refuse("host_threads is " + std::to_string(threads) + ", allowed is 0 (all) or more");
    host_threads = threads;
    return 0;
}

int32_t qbsa_twin_set_mode(const char* wanted)
{
    const std::string name = wanted;
    if (name == "race" && !twin::kChecked) return refuse("mode race needs the checked variant of the twin");
    if (name != "fast" && name != "hostile" && name != "race") {
        return refuse("mode is \"" + name + "\", allowed is fast, hostile or race");
    }
    mode = name == "race" ? Mode::kRace : name == "hostile" ? Mode::kHostile : Mode::kFast;
    return 0;
}

int32_t qbsa_twin_set_mutation(const char* text)
{
    return guarded([text] {
        mutation = *text ? std::make_unique<twin::Mutation>(text) : nullptr;
        return 0;
    });
}

int64_t qbsa_twin_progress() { return stores; }

const char* qbsa_twin_report()
{
    thread_local std::string copy;
    std::lock_guard<std::mutex> lock(report_mutex);
    copy = report;
    return copy.c_str();
}

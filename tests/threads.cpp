// Calls from several threads at once, each on several host threads: equal bits, and nothing for ThreadSanitizer.
// Built and run by `make sanitize`.
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "../twin/twin.h"

namespace {

constexpr qbsa::i64 kTokens = 300, kBatch = 2, kHeadsQ = 4, kHeadsKv = 2, kQBlocks = 2, kCapacity = 3, kPages = 6;
constexpr qbsa::i64 kLists = kBatch * kHeadsQ * kQBlocks, kRows = qbsa::kBlockKeys, kColumns = qbsa::kHeadDim;
constexpr int kCallers = 4, kCalls = 3, kHostThreads = 3;

template <class T>
qbsa::u64 address(const std::vector<T>& data)
{
    return reinterpret_cast<qbsa::u64>(data.data());
}

// Random codes with small exponents: no NaN.
std::vector<uint8_t> fp8(qbsa::i64 size, std::mt19937& random)
{
    std::vector<uint8_t> codes(size);
    for (uint8_t& code : codes) code = uint8_t(random() & 0xBF);
    return codes;
}

// What all callers share, and only read.
struct Inputs {
    std::mt19937 random{1};
    std::vector<uint8_t> query = fp8(kTokens * kHeadsQ * kColumns, random);
    std::vector<uint8_t> key = fp8(kPages * kHeadsKv * kRows * kColumns, random);
    std::vector<uint8_t> value = fp8(kPages * kHeadsKv * kRows * kColumns, random);
    std::vector<float> q_descale = std::vector<float>(kTokens * kHeadsQ, 0.3f);
    std::vector<float> k_descale = std::vector<float>(kPages * kHeadsKv * kRows, 0.2f);
    std::vector<float> v_descale = std::vector<float>(kHeadsKv, 0.1f);
    std::vector<qbsa::i32> indices;
    std::vector<qbsa::i32> lengths = std::vector<qbsa::i32>(kLists, kCapacity);
    std::vector<qbsa::i32> q_ends = {0, 200, kTokens};
    std::vector<qbsa::i32> kv_lens = {350, 290};
    std::vector<qbsa::i32> table = {5, 0, 3, 1, 2, 4};

    Inputs()
    {
        for (qbsa::i64 i = 0; i < kLists * kCapacity; ++i) indices.push_back(i % kCapacity);
    }
};

struct Result {
    std::vector<uint16_t> out = std::vector<uint16_t>(kTokens * kHeadsQ * kColumns);
    std::vector<float> lse = std::vector<float>(kTokens * kHeadsQ);
};

std::vector<qbsa::i32> make_plan(const Inputs& in, qbsa::i32 splits)
{
    qbsa::ScheduleArgs args = {};
    args.sparse_seq_len = address(in.lengths);
    args.cu_seqlens_q = address(in.q_ends);
    args.batch = kBatch, args.heads_q = kHeadsQ, args.heads_kv = kHeadsKv, args.q_blocks = kQBlocks;
    args.seq_len_batch_stride = kHeadsQ * kQBlocks, args.seq_len_head_stride = kQBlocks, args.seq_len_block_stride = 1;
    args.max_kv_splits = splits;
    std::vector<qbsa::i32> plan(qbsa_plan_words(&args));
    args.plan = address(plan);
    if (qbsa_schedule(&args, nullptr) != 0) plan.clear();
    return plan;
}

qbsa::AttentionArgs make_args(const Inputs& in, const std::vector<qbsa::i32>& plan, const Result& result)
{
    qbsa::AttentionArgs args = {};
    args.query = address(in.query), args.key = address(in.key), args.value = address(in.value);
    args.q_descale = address(in.q_descale), args.k_descale = address(in.k_descale);
    args.v_descale = address(in.v_descale);
    args.sparse_indices = address(in.indices), args.sparse_seq_len = address(in.lengths);
    args.cu_seqlens_q = address(in.q_ends), args.seqused_kv = address(in.kv_lens), args.block_table = address(in.table);
    args.plan = address(plan), args.plan_words = qbsa::i32(plan.size());
    args.out = address(result.out), args.lse = address(result.lse);
    args.tokens = kTokens, args.batch = kBatch, args.heads_q = kHeadsQ, args.heads_kv = kHeadsKv;
    args.q_blocks = kQBlocks, args.list_capacity = kCapacity, args.pages = kPages, args.table_width = kPages / kBatch;
    args.query_token_stride = kHeadsQ * kColumns, args.query_head_stride = kColumns;
    args.q_descale_token_stride = kHeadsQ, args.q_descale_head_stride = 1;
    args.key_token_stride = args.value_token_stride = kColumns;
    args.key_head_stride = args.value_head_stride = kRows * kColumns;
    args.key_page_stride = args.value_page_stride = kHeadsKv * kRows * kColumns;
    args.k_descale_page_stride = kHeadsKv * kRows, args.k_descale_head_stride = kRows, args.k_descale_token_stride = 1;
    args.indices_entry_stride = 1, args.indices_block_stride = kCapacity;
    args.indices_head_stride = kQBlocks * kCapacity, args.indices_batch_stride = kHeadsQ * kQBlocks * kCapacity;
    args.seq_len_batch_stride = kHeadsQ * kQBlocks, args.seq_len_head_stride = kQBlocks, args.seq_len_block_stride = 1;
    args.table_batch_stride = kPages / kBatch, args.table_entry_stride = 1;
    args.softmax_scale = 0.1f;
    args.quant_mode = static_cast<qbsa::i32>(qbsa::QuantMode::kFp8PerTokenHead);
    args.mask_mode = static_cast<qbsa::i32>(qbsa::MaskMode::kCausal);
    return args;
}

// Plans and attends; an empty `out` if either failed.
Result attend(const Inputs& in, qbsa::i32 splits)
{
    const std::vector<qbsa::i32> plan = make_plan(in, splits);
    Result result;
    qbsa::AttentionArgs args = make_args(in, plan, result);
    const std::vector<uint8_t> workspace(qbsa_workspace_bytes(&args));
    args.workspace = address(workspace);
    if (plan.empty() || qbsa_attention(&args, nullptr) != 0) {
        std::printf("%s\n", qbsa_last_error());
        result.out.clear();
    }
    return result;
}

bool same(const Result& x, const Result& y)
{
    return !x.out.empty() && x.out == y.out &&
           std::memcmp(x.lse.data(), y.lse.data(), x.lse.size() * sizeof(float)) == 0;
}

}  // namespace

int main()
{
    const Inputs in;
    qbsa_twin_set_threads(kHostThreads);
    for (qbsa::i32 splits : {1, 0}) {
        const Result expected = attend(in, splits);
        int wrong[kCallers] = {};
        std::vector<std::thread> callers;
        for (int caller = 0; caller < kCallers; ++caller) {
            callers.emplace_back([&, caller] {
                for (int call = 0; call < kCalls; ++call) wrong[caller] += !same(attend(in, splits), expected);
            });
        }
        for (std::thread& caller : callers) caller.join();
        for (int caller = 0; caller < kCallers; ++caller) {
            if (wrong[caller] > 0) {
                std::printf("caller %d: %d of %d results differ or failed\n", caller, wrong[caller], kCalls);
                return 1;
            }
        }
    }
    std::printf("%d callers x %d calls x %d host threads: equal bits\n", kCallers, 2 * kCalls, kHostThreads);
}

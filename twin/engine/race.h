// Race mode: of two accesses to the same bytes, one of them a write, one must be ordered before the other by flags,
// barriers or the order of one pipe. Vector clocks follow what orders; cells remember who touched what last.
#pragma once
#include <vector>

#include "clock_vector.h"
#include "footprint.h"
#include "gm_accesses.h"
#include "gm_ranges.h"
#include "names.h"

namespace twin {

// Of one group, on its host thread; only the accesses to GM are shared with other groups.
class RaceCheck {
public:
    RaceCheck(int group, const GmRanges& gm_ranges, const Names& names, GmAccesses& gm)
        : group_(group), gm_ranges_(gm_ranges), names_(names), gm_(gm), cells_(kCells)
    {
        for (std::vector<Clock>& clocks : program_) clocks.emplace_back();
    }

    // An instruction comes after all that its core's program has waited for when it issues it.
    void issued(const Core& core, Instruction& i)
    {
        i.program_epoch = uint32_t(program_[core.index].size() - 1);
        i.program_time = time_[agent_of(core, PIPE_S)];
    }

    // Before an instruction takes effect.
    void starts(const Core& core, const Instruction& i)
    {
        const int agent = agent_of(core, i.call.pipe);
        const int program = agent_of(core, PIPE_S);
        seen_[agent].join(program_[core.index][i.program_epoch]);
        seen_[agent].at[program] = std::max(seen_[agent].at[program], i.program_time);
        if (i.kind == Kind::kBarrier) seen_[agent].at[agent] = time_[agent];
    }

    // After it took effect; footprint: of a vector function.
    void ran(const Core& core, const Instruction& i, const Footprint& footprint)
    {
        const int agent = agent_of(core, i.call.pipe);
        tick(agent, i.call);
        for (int n = 0; n < i.accesses; ++n) check(core, agent, i.access[n]);
        if (i.call.pipe == PIPE_V) check_vector(core, agent, footprint);
    }

    void set_event(const Core& core, pipe_t pipe, int event, int id)
    {
        event_[core.index][event][id] = released(core, pipe);
    }
    void take_event(const Core& core, pipe_t pipe, int event, int id)
    {
        acquire(core, pipe, event_[core.index][event][id]);
    }
    // A wait takes the clock of the set whose credit it uses, the oldest.
    void send_cross(const Core& core, pipe_t pipe, int target_core, int id)
    {
        cross_[target_core][id].push_back(released(core, pipe));
    }
    void take_cross(const Core& core, pipe_t pipe, int id)
    {
        std::vector<Clock>& credits = cross_[core.index][id];
        acquire(core, pipe, credits.front());
        credits.erase(credits.begin());
    }

    // PipeBarrier<PIPE_ALL>: every pipe of the core is empty.
    void drained(const Core& core)
    {
        Clock all = released(core, PIPE_S);
        for (int a = core.index * kAgentsOfCore; a < (core.index + 1) * kAgentsOfCore; ++a) {
            all.join(seen_[a]);
            all.at[a] = time_[a];
        }
        acquire(core, PIPE_S, all);
    }

    void scalar_access(const Core& core, const Call& call, uint64_t begin, uint64_t end, bool write)
    {
        if (!gm_ranges_.may_be_written(begin, end)) return;
        const int agent = agent_of(core, PIPE_S);
        tick(agent, call);
        seen_[agent] = program_[core.index].back();
        check_gm(core, agent, "the call", begin, end, write);
    }

private:
    // Who touched a data block of on-chip memory; time 0: nobody.
    struct Cell {
        uint32_t write_time;
        int32_t writer;
        uint32_t readers;  // bit a: read_time[a] counts
        uint32_t read_time[kAgents];
    };
    static_assert(kAgents <= 32, "a bit for each agent");

    static constexpr uint32_t kBlock = qbsa::arch::kDataBlockBytes;
    static constexpr uint32_t kCellsOfMemory = qbsa::arch::kL1Bytes / kBlock;
    static constexpr uint32_t kCells = 6 * kCellsOfMemory;  // UB0, UB1, L1, L0A, L0B, L0C

    struct Touch {
        const Core& core;
        int agent;
        const char* operand;
        Memory memory;
        int aiv;
        bool write;
        bool in_order;  // this pipe does such accesses one after the other without a barrier
    };

    void tick(int agent, const Call& call)
    {
        ++time_[agent];
        history_[agent].push_back(call);
    }

    Clock released(const Core& core, pipe_t pipe)
    {
        const int agent = agent_of(core, pipe);
        Clock clock = pipe == PIPE_S ? program_[core.index].back() : seen_[agent];
        clock.at[agent] = time_[agent];
        return clock;
    }
    void acquire(const Core& core, pipe_t pipe, const Clock& clock)
    {
        if (pipe != PIPE_S) return seen_[agent_of(core, pipe)].join(clock);
        Clock next = program_[core.index].back();
        next.join(clock);
        program_[core.index].push_back(next);
    }

    // Transfers of MTE2 or MTE3 overtake each other. So do Mmads into the same few fractals of L0C.
    static bool is_in_order(pipe_t pipe, const Access& a)
    {
        constexpr uint32_t kFewFractals = 10;
        constexpr uint32_t kFractalBytes = 16 * 16 * sizeof(float);
        const uint32_t fractals = (a.run_bytes + kFractalBytes - 1) / kFractalBytes * a.loop[2].count;
        if (pipe == PIPE_M && a.region.memory == Memory::kL0C) return fractals >= kFewFractals;
        return pipe != PIPE_MTE2 && pipe != PIPE_MTE3;
    }

    void check(const Core& core, int agent, const Access& a)
    {
        if (a.region.memory == Memory::kGm) {
            a.for_each_run([&](uint64_t run) {
                if (gm_ranges_.may_be_written(run, run + a.run_bytes)) {
                    check_gm(core, agent, a.operand, run, run + a.run_bytes, a.write);
                }
            });
            return;
        }
        const pipe_t pipe = history_[agent].back().pipe;
        const int aiv = a.region.memory != Memory::kUb ? 0 : a.region.aiv == kRunningAiv ? core.aiv() : a.region.aiv;
        const Touch touch{core, agent, a.operand, a.region.memory, aiv, a.write, is_in_order(pipe, a)};
        a.for_each_run([&](uint64_t run) { check_blocks(touch, run, run + a.run_bytes); });
    }

    void check_vector(const Core& core, int agent, const Footprint& footprint)
    {
        for (bool write : {false, true}) {
            const Touch touch{core, agent, "it", Memory::kUb, core.aiv(), write, true};
            footprint.for_each_run(write ? Footprint::kWritten : Footprint::kRead,
                                   [&](uint64_t begin, uint64_t end) { check_blocks(touch, begin, end); });
        }
    }

    void check_blocks(const Touch& t, uint64_t begin, uint64_t end)
    {
        const uint32_t base = kCellsOfMemory * (t.memory == Memory::kUb ? t.aiv : static_cast<int>(t.memory));
        for (uint64_t block = begin / kBlock; block <= (end - 1) / kBlock; ++block) {
            Cell& cell = cells_[base + block];
            if (cell.write_time > 0 && !ordered(t, cell.writer, cell.write_time)) {
                fail_race(t, begin, end, block * kBlock, cell.writer, cell.write_time, true);
            }
            if (t.write) {
                for (uint32_t left = cell.readers; left != 0; left &= left - 1) {
                    const int reader = __builtin_ctz(left);
                    if (ordered(t, reader, cell.read_time[reader])) continue;
                    fail_race(t, begin, end, block * kBlock, reader, cell.read_time[reader], false);
                }
                cell.write_time = time_[t.agent];
                cell.writer = t.agent;
                cell.readers = 0;
            } else {
                cell.readers |= 1u << t.agent;
                cell.read_time[t.agent] = time_[t.agent];
            }
        }
    }

    bool ordered(const Touch& t, int agent, uint32_t time) const
    {
        if (agent == t.agent && (t.in_order || time == time_[agent])) return true;
        return seen_[t.agent].at[agent] >= time;
    }

    void check_gm(const Core& core, int agent, const char* operand, uint64_t begin, uint64_t end, bool write)
    {
        const GmUser self{group_, agent, time_[agent], history_[agent].back()};
        const bool in_order = self.call.pipe == PIPE_S;
        const Touch touch{core, agent, operand, Memory::kGm, 0, write, in_order};
        const GmUser other = gm_.access(begin, end, write, self, [&](const GmUser& user) {
            return user.group == group_ && ordered(touch, user.agent, user.time);
        });
        if (other.group < 0) return;
        const std::string what = gm_ranges_.nearest(begin, end);
        fail("race: %s %s %llu bytes of GM, %s, that %s also touches; %s", operand, write ? "writes" : "reads",
             static_cast<unsigned long long>(end - begin), what.c_str(),
             describe(other.group, other.agent, other.call).c_str(), remedy(touch, other.group, other.agent).c_str());
    }

    static std::string describe(int group, int agent, const Call& call)
    {
        const int core = agent / kAgentsOfCore;
        std::string text = core == 0 ? "AIC" : "AIV" + std::to_string(core - 1);
        return text + " group " + std::to_string(group) + ", " + name(call.pipe) + ", " + twin::describe(call);
    }

    std::string remedy(const Touch& t, int group, int agent) const
    {
        const pipe_t mine = history_[t.agent].back().pipe;
        if (group != group_) return "nothing orders two groups of a launch";
        if (agent == t.agent) return format("two such accesses of one pipe need PipeBarrier<PIPE_%s>", name(mine));
        return "no flag orders the two";
    }

    [[noreturn, gnu::cold]] void fail_race(const Touch& t, uint64_t begin, uint64_t end, uint64_t at, int agent,
                                           uint32_t time, bool was_write)
    {
        const Call& other = history_[agent][time - 1];
        fail("race: %s %s %s [%#llx, %#llx), and byte %#llx%s is also %s by %s; %s", t.operand,
             t.write ? "writes" : "reads", name(t.memory), static_cast<unsigned long long>(begin),
             static_cast<unsigned long long>(end), static_cast<unsigned long long>(at),
             names_.buffer(t.memory, at).c_str(), was_write ? "written" : "read",
             describe(group_, agent, other).c_str(), remedy(t, group_, agent).c_str());
    }

    const int group_;
    const GmRanges& gm_ranges_;
    const Names& names_;
    GmAccesses& gm_;
    std::vector<Cell> cells_;
    uint32_t time_[kAgents] = {};
    Clock seen_[kAgents];                 // what the next instruction of a pipe comes after
    std::vector<Clock> program_[kCores];  // the same of a core's program, over time
    std::vector<Call> history_[kAgents];  // by time - 1
    Clock event_[kCores][kEvents][qbsa::arch::kEventIds];
    std::vector<Clock> cross_[kCores][kCrossFlags];
};

}  // namespace twin

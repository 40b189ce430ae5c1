// Event-driven clock over the programs of all cores of a chip, in the order of time.
//
// A scalar unit issues its calls in order; a pipe runs its queue in order, each instruction at the latest of: the pipe
// free, the instruction issued, its flag set. Flags carry the time at which they were set. HBM is one server for all
// cores, first come, first served, at the chip's whole rate; a single core is held to the rate of its own path.
#pragma once
#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>
#include <queue>

#include "chip.h"
#include "costs.h"
#include "l2.h"
#include "timeline.h"

namespace twin::clock {

class Simulation {
public:
    // traced_groups: that many groups with the longest programs keep their spans.
    Simulation(const Chip& chip, const Costs& costs, const std::vector<GroupPrograms>& programs, int traced_groups = 0)
        : chip_(chip),
          costs_(costs),
          programs_(programs),
          l2_(chip.l2_bytes),
          cores_(programs.size() * kCores),
          traced_(programs.size())
    {
        timeline_.groups.resize(programs.size());
        std::vector<size_t> by_length(programs.size());
        std::iota(by_length.begin(), by_length.end(), size_t{0});
        std::stable_sort(by_length.begin(), by_length.end(),
                         [&](size_t a, size_t b) { return programs[a][0].steps.size() > programs[b][0].steps.size(); });
        for (size_t i = 0; i < by_length.size() && int(i) < traced_groups; ++i) traced_[by_length[i]] = true;
    }

    Timeline run()
    {
        for (size_t c = 0; c < cores_.size(); ++c) schedule(c, kScalar, 0);
        while (!events_.empty()) {
            const Event event = events_.top();
            events_.pop();
            if (event.track == kScalar) {
                run_scalar(event.core, event.time);
            } else {
                run_pipe(event.core, event.track, event.time);
            }
        }
        for (size_t c = 0; c < cores_.size(); ++c) check_finished(c);
        return std::move(timeline_);
    }

private:
    enum class Block : uint8_t { kNone, kEmpty, kFlag, kRoom, kDrain, kLaunch };

    struct Track {
        int64_t free = 0;  // may start the next instruction
        int64_t done = 0;  // all started ones have completed
        Block block = Block::kEmpty;
        int waits_for = 0;                               // flag slot or, for the scalar unit, pipe
        std::deque<std::pair<uint32_t, int64_t>> queue;  // step, time of issue
    };
    struct CoreState {
        Track track[kTracks];
        size_t next = 0;
        std::map<int, std::deque<int64_t>> set_at;  // by flag slot
    };
    struct Event {
        int64_t time;
        uint64_t order;  // ties keep the order of scheduling
        uint32_t core;
        uint8_t track;
        bool operator<(const Event& other) const
        {
            return time != other.time ? time > other.time : order > other.order;
        }
    };

    const Program& program(size_t core) const { return programs_[core / kCores][core % kCores]; }
    CoreTimes& times(size_t core) { return timeline_.groups[core / kCores][core % kCores]; }

    void schedule(size_t core, int track, int64_t time)
    {
        cores_[core].track[track].block = Block::kNone;
        events_.push({time, order_++, uint32_t(core), uint8_t(track)});
    }
    void block(size_t core, int track, Block reason, int waits_for = 0)
    {
        cores_[core].track[track].block = reason;
        cores_[core].track[track].waits_for = waits_for;
    }

    void run_scalar(size_t c, int64_t now)
    {
        CoreState& core = cores_[c];
        Track& scalar = core.track[kScalar];
        now = std::max(now, scalar.free);
        if (core.next == program(c).steps.size()) return finish(c, now);
        const Step& step = program(c).steps[core.next];
        if (step.pipe == kScalar) return run_scalar_step(c, step, now);
        Track& pipe = core.track[step.pipe];
        if (int64_t(pipe.queue.size()) >= costs_.queue_depth) return block(c, kScalar, Block::kRoom, step.pipe);
        times(c).busy[kScalar] += costs_.scalar_call;
        scalar.free = now + costs_.scalar_call;
        pipe.queue.push_back({uint32_t(core.next), scalar.free});
        if (pipe.block == Block::kEmpty) schedule(c, step.pipe, std::max(pipe.free, scalar.free));
        next_scalar(c);
    }

    void run_scalar_step(size_t c, const Step& step, int64_t now)
    {
        int64_t at = now;
        if (step.kind == Kind::kWaitFlag || step.kind == Kind::kCrossWait) {
            if (!take_flag(c, kScalar, step, now, at)) return;
        } else if (step.kind == Kind::kBarrier) {
            for (int p = 0; p < kPipes; ++p) {
                const Track& pipe = cores_[c].track[p];
                if (!pipe.queue.empty()) return block(c, kScalar, Block::kDrain);
                at = std::max(at, pipe.done);
            }
            waited(c, kScalar, step.site, now, at);
            if (step.flag == kLaunchEnd) return end_launch(c, at);
        }
        const int64_t cycles = step.kind == Kind::kRun ? step.busy : costs_.scalar_call;
        occupy(c, kScalar, at, cycles, step.site);
        cores_[c].track[kScalar].free = at + cycles;
        if (step.kind == Kind::kSetFlag || step.kind == Kind::kCrossSet)
            set_flag(c, step, cores_[c].track[kScalar].free);
        next_scalar(c);
    }

    // The last core that arrives releases all.
    void end_launch(size_t c, int64_t at)
    {
        block(c, kScalar, Block::kLaunch);
        launch_end_ = std::max(launch_end_, at);
        if (++arrived_ < cores_.size()) return;
        arrived_ = 0;
        timeline_.launch_ends.push_back(launch_end_);
        for (size_t other = 0; other < cores_.size(); ++other) {
            cores_[other].track[kScalar].free = launch_end_;
            next_scalar(other);
        }
    }

    void next_scalar(size_t c)
    {
        ++cores_[c].next;
        schedule(c, kScalar, cores_[c].track[kScalar].free);
    }

    void run_pipe(size_t c, int p, int64_t now)
    {
        CoreState& core = cores_[c];
        Track& pipe = core.track[p];
        const auto [index, issued] = pipe.queue.front();
        const Step& step = program(c).steps[index];
        const int64_t ready = std::max(pipe.free, issued);
        if (now < ready) return schedule(c, p, ready);
        if (pipe.free < issued) times(c).unfed[p] += issued - pipe.free;
        pipe.free = std::max(pipe.free, issued);
        int64_t start = pipe.free;
        switch (step.kind) {
            case Kind::kRun:
                start_step(c, p, step, start);
                break;
            case Kind::kBarrier:
                pipe.free = std::max(pipe.free, pipe.done);
                break;
            case Kind::kSetFlag:
            case Kind::kCrossSet:
                set_flag(c, step, std::max(start, pipe.done));
                break;
            case Kind::kWaitFlag:
            case Kind::kCrossWait:
                if (!take_flag(c, p, step, pipe.free, start)) return;
                pipe.free = start;
                break;
        }
        pipe.queue.pop_front();
        wake_scalar(c, p, start);
        if (pipe.queue.empty()) return block(c, p, Block::kEmpty);
        schedule(c, p, std::max(pipe.free, pipe.queue.front().second));
    }

    void start_step(size_t c, int p, const Step& step, int64_t start)
    {
        int64_t busy = step.busy, latency = step.latency;
        if (step.transfer != kNoTransfer) {
            busy += move(program(c).transfers[step.transfer], start + step.busy, latency);
        }
        Track& pipe = cores_[c].track[p];
        occupy(c, p, start, busy, step.site);
        pipe.free = start + busy;
        pipe.done = std::max(pipe.done, pipe.free + latency);
    }

    // Cycles that a transfer takes on its pipe when it begins at `now`.
    int64_t move(const Transfer& transfer, int64_t now, int64_t& latency)
    {
        const int64_t runs = int64_t(transfer.loop[0].count) * transfer.loop[1].count * transfer.loop[2].count;
        const int64_t bytes = runs * std::max<int64_t>(transfer.run_bytes, costs_.gm_burst_bytes);
        const int64_t missed = l2_.touch(transfer);
        timeline_.l2_bytes += runs * transfer.run_bytes;
        timeline_.hbm_bytes += missed;
        const double path = bytes / transfer.rate + runs * transfer.run_cycles;
        hbm_free_ = std::max(hbm_free_, double(now)) + missed / (chip_.ddr_rate * chip_.cores);
        const bool waits = missed > 0 && !transfer.write;  // a store ends in L2
        latency += transfer.write ? 0 : waits ? costs_.hbm_latency : costs_.l2_latency;
        return int64_t(std::ceil(waits ? std::max(path, hbm_free_ - double(now)) : path));
    }

    void set_flag(size_t c, const Step& step, int64_t time)
    {
        const bool cross = step.kind == Kind::kCrossSet;
        const size_t target = cross ? c / kCores * kCores + step.flag_core : c;
        const int64_t seen = time + (cross ? costs_.cross_flag : costs_.flag);
        cores_[target].set_at[step.flag].push_back(seen);
        for (int t = 0; t < kTracks; ++t) {
            const Track& track = cores_[target].track[t];
            if (track.block == Block::kFlag && track.waits_for == step.flag) return schedule(target, t, seen);
        }
    }

    // Is the flag set, now or at a known later time? Then `at` is when the wait is over.
    bool take_flag(size_t c, int track, const Step& step, int64_t now, int64_t& at)
    {
        std::deque<int64_t>& set_at = cores_[c].set_at[step.flag];
        if (set_at.empty()) {
            block(c, track, Block::kFlag, step.flag);
            return false;
        }
        at = std::max(now, set_at.front());
        set_at.pop_front();
        waited(c, track, step.site, now, at);
        return true;
    }

    void wake_scalar(size_t c, int p, int64_t time)
    {
        const Track& scalar = cores_[c].track[kScalar];
        const bool room = scalar.block == Block::kRoom && scalar.waits_for == p;
        if (room || scalar.block == Block::kDrain) schedule(c, kScalar, time);
    }

    void occupy(size_t c, int track, int64_t begin, int64_t cycles, uint32_t site)
    {
        times(c).busy[track] += cycles;
        SiteTimes& times_of_site = site_times(c, track, site);
        ++times_of_site.calls;
        times_of_site.busy += cycles;
        if (traced_[c / kCores]) times(c).spans.push_back({begin, begin + cycles, site, uint8_t(track), false});
    }
    void waited(size_t c, int track, uint32_t site, int64_t begin, int64_t end)
    {
        SiteTimes& times_of_site = site_times(c, track, site);
        ++times_of_site.calls;
        times_of_site.waited += end - begin;
        if (traced_[c / kCores] && end > begin) times(c).spans.push_back({begin, end, site, uint8_t(track), true});
    }
    SiteTimes& site_times(size_t c, int track, uint32_t site)
    {
        std::vector<SiteTimes>& sites = times(c).sites;
        if (site >= sites.size()) sites.resize(site + 1);
        sites[site].track = uint8_t(track);
        return sites[site];
    }

    void finish(size_t c, int64_t now)
    {
        times(c).end = std::max(times(c).end, now);
        for (const Track& track : cores_[c].track) times(c).end = std::max(times(c).end, track.done);
    }

    void check_finished(size_t c)
    {
        finish(c, 0);
        timeline_.cycles = std::max(timeline_.cycles, times(c).end);
        bool empty = cores_[c].next == program(c).steps.size();
        for (const Track& track : cores_[c].track) empty = empty && track.queue.empty();
        if (!empty)
            throw Error("the clock found a deadlock: the queues of the model hold fewer calls than the engine's");
    }

    const Chip& chip_;
    const Costs costs_;
    const std::vector<GroupPrograms>& programs_;
    L2 l2_;
    std::vector<CoreState> cores_;
    std::vector<bool> traced_;  // by group
    std::priority_queue<Event> events_;
    uint64_t order_ = 0;
    double hbm_free_ = 0;
    size_t arrived_ = 0;  // cores at the end of their launch
    int64_t launch_end_ = 0;
    Timeline timeline_;
};

}  // namespace twin::clock

// The clock as one call: what a launch recorded -> report, and a trace file if one is wanted.
#pragma once
#include "recorder.h"
#include "report.h"
#include "simulate.h"

namespace twin::clock {

struct Request {
    Chip chip;
    Costs costs;
    std::string trace;  // path; empty: none
    int traced_groups = 0;
};

inline std::string time_and_report(Recorder& recorder, const Request& request)
{
    const std::vector<GroupPrograms>& programs = recorder.programs();
    const int traced = request.trace.empty() ? 0 : request.traced_groups;
    const Timeline timeline = Simulation(request.chip, request.costs, programs, traced).run();
    const Report report(request.chip, timeline, recorder.sites());
    if (!request.trace.empty()) report.write_trace(request.trace);
    return report.json();
}

}  // namespace twin::clock
